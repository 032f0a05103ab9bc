"""The servers of ``py_echo_*``: a task for each connection, which sends back what it reads.

Each is written with the streams of its library: ``StreamReader`` and ``StreamWriter`` with
``drain()`` for asyncio and uvloop, ``SocketStream`` for trio, :mod:`tiffany.net` for tiffany. A
server prints its port and runs until its parent is gone or kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

import tiffany
from tiffany import net

from . import loops
from .process import end_with_parent
from .py_echo import allow_many_descriptors

#: Bytes a server reads at once.
BUFFER = 1024
#: Connections that may queue: one too many would wait a second to try again.
BACKLOG = 1024


async def _asyncio_main() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(BUFFER):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _asyncio() -> None:
    loops.with_asyncio(_asyncio_main())


def _uvloop() -> None:
    loops.with_uvloop(_asyncio_main())


def _trio() -> None:
    import trio

    async def serve(stream: Any) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            while data := await stream.receive_some(BUFFER):
                await stream.send_all(data)

    async def main() -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=BACKLOG)
        print(listeners[0].socket.getsockname()[1], flush=True)
        await trio.serve_listeners(serve, listeners)

    loops.with_trio(main)


def _ours() -> None:
    async def serve(stream: net.Stream) -> None:
        with stream, contextlib.suppress(ConnectionError):
            while data := await stream.read(BUFFER):
                await stream.write_all(data)

    async def main() -> None:
        with await net.listen("127.0.0.1", 0) as listener:
            print(listener.address[1], flush=True)
            async for stream, _ in listener:
                await tiffany.spawn(serve(stream))

    tiffany.run(main())


SERVERS = {"tiffany": _ours, "asyncio": _asyncio, "uvloop": _uvloop, "trio": _trio}


if __name__ == "__main__":
    end_with_parent()
    allow_many_descriptors()
    SERVERS[sys.argv[1]]()
