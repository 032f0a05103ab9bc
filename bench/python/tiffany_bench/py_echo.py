"""``py_echo_64`` and ``py_echo_1000``: a server sends back what it receives, to 64 or 1,000
connections.

Each connection has one outstanding request of 64 to 128 bytes. The server has a process of its own
(:mod:`tiffany_bench.echo_servers`), and the load comes from another one. The figure is requests per
second of CPU time of the server's process, all of its threads, so the load of the rest of the
machine does not matter.
"""

from __future__ import annotations

import contextlib
import resource
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Self

from .harness import Better, Contender, Measure, Mode, Of, Sample
from .process import Child


def _requests(mode: Mode) -> int:
    return mode.pick(40_000, 2_000)


def allow_many_descriptors() -> None:
    """Raises the descriptor limit: 1,000 connections need more than the default of some systems."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of all threads of a process so far."""
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    return sum(int((one / "schedstat").read_text().split()[0]) for one in threads) / 1e9


class Load:
    """Connections with at most one outstanding request each, on one thread with epoll."""

    def __init__(self, port: int, connections: int) -> None:
        self.epoll = select.epoll()
        self.connections: dict[int, _Connection] = {}
        with contextlib.ExitStack() as opened:
            for number in range(connections):
                one = socket.create_connection(("127.0.0.1", port))
                opened.enter_context(one)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections[one.fileno()] = _Connection(one, 64 + number % 65)
                self.epoll.register(one, select.EPOLLIN)
            self._opened = opened.pop_all()

    def requests(self, requests: int) -> None:
        """Sends this many requests, spread over the connections, and receives all of the answers."""
        sent = answered = 0
        for connection in self.connections.values():
            if sent < requests:
                connection.ask()
                sent += 1
        while answered < requests:
            for descriptor, _ in self.epoll.poll():
                connection = self.connections[descriptor]
                if not connection.answered():
                    continue
                answered += 1
                if sent < requests:
                    connection.ask()
                    sent += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.epoll.close()
        self._opened.close()


class _Connection:
    """One connection, and the part of its answer that is still to come."""

    def __init__(self, stream: socket.socket, size: int) -> None:
        self.message = bytes(number % 251 for number in range(size))
        self.send, self.receive = stream.sendall, stream.recv
        self.answer = b""

    def ask(self) -> None:
        """Sends a request."""
        self.send(self.message)

    def answered(self) -> bool:
        """Receives available data. Returns whether the answer is complete."""
        came = self.receive(1024)
        if not came:
            raise RuntimeError("the server hung up")
        self.answer += came
        if len(self.answer) < len(self.message):
            return False
        assert self.answer == self.message, "that is no echo"
        self.answer = b""
        return True


def _taker(server: str, connections: int) -> Callable[[Mode, Path], Sample]:
    def take(mode: Mode, _: Path) -> Sample:
        allow_many_descriptors()
        with Child("-m", "tiffany_bench.echo_servers", server) as process:
            port = int(process.line())
            with Load(port, connections) as load:
                load.requests(2 * connections)
                before = cpu_seconds(process.pid)
                load.requests(_requests(mode))
                used = cpu_seconds(process.pid) - before
        return Sample(_requests(mode) / used)

    return take


def _measure(connections: int) -> Measure:
    return Measure(
        name=f"py_echo_{connections}",
        what=f"an echo of 64 to 128 bytes, {connections:,} connections",
        unit="requests/cpu-s",
        better=Better.HIGHER,
        targets=(Of("uvloop", 0.95),),
        rounds=7,
        contenders=(
            Contender("tiffany", _taker("tiffany", connections)),
            Contender("uvloop", _taker("uvloop", connections), needs=("uvloop",)),
            Contender("asyncio", _taker("asyncio", connections)),
            Contender("trio", _taker("trio", connections), needs=("trio",)),
        ),
    )


ECHO_64 = _measure(64)
ECHO_1000 = _measure(1_000)
