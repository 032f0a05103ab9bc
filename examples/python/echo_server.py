"""An echo server, and clients that test it.

    tiffany run examples/python/echo_server.py
    tiffany run examples/python/echo_server.py:serve 127.0.0.1 7007    # until Ctrl-C

Each connection has its own task. There are no callbacks and no locks: between two calls no other
task runs.
"""

from __future__ import annotations

import contextlib
import sys

import tiffany
from tiffany import cancel, gather, net, sleep, spawn, wait


async def echo(stream: net.Stream) -> None:
    """Sends back all data until the client closes the connection."""
    with stream:
        while data := await stream.read(4096):
            await stream.write_all(data)


async def accept(listener: net.Listener) -> None:
    """Starts a task for every connection."""
    async for stream, _address in listener:
        await spawn(echo(stream), name="connection")


async def serve(host: str = "127.0.0.1", port: str = "7007") -> None:
    """Runs a server until Ctrl-C: its tasks are cancelled, and `with` closes what they have open."""
    with await net.listen(host, int(port)) as listener:
        print("listening at {}:{}; Ctrl-C ends it".format(*listener.address), flush=True)
        await accept(listener)


async def client(address: tuple[str, int], number: int, rounds: int) -> int:
    """Sends lines and returns how many came back."""
    good = 0
    with await net.connect(*address) as stream:
        for turn in range(rounds):
            line = f"client {number}, line {turn}\n".encode()
            await stream.write_all(line)
            good += await stream.read_line() == line
            await sleep(0.001)
    return good


async def main(clients: str = "50", rounds: str = "10") -> str:
    """Runs a server and its clients in one run."""
    with await net.listen() as listener:
        server = await spawn(accept(listener), name="server")
        tasks = [
            await spawn(client(listener.address, number, int(rounds)), name=f"client {number}")
            for number in range(int(clients))
        ]
        echoed = sum(await gather(tasks))
        await cancel(server)
        with contextlib.suppress(tiffany.errors.TaskCancelledError):
            await wait(server)
    assert echoed == int(clients) * int(rounds), echoed
    return f"{echoed} lines of {clients} clients came back"


if __name__ == "__main__":
    print(tiffany.run(main(*sys.argv[1:])))
