"""``py_embed``: a FastAPI endpoint starts a durable run of three steps and awaits it, for 64 clients.

The server has a process of its own (:mod:`tiffany_bench.services`), and the load comes from another
one: 64 connections with one outstanding request each. Every request is another run. The figure is
requests per second, after some to warm up; ``p99`` is the time that 99 of 100 requests take at most.
"""

from __future__ import annotations

import select
import socket
import time
from pathlib import Path

from . import services
from .harness import Better, Measure, Mode, OfBest, Sample
from .process import Child

CLIENTS = 64
_ANSWER = b"HTTP/1.1 200 OK\r\n"


class _Connection:
    """A connection that is kept open, with one request at a time."""

    def __init__(self, port: int) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port))
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = b""
        self._began = 0.0

    def ask(self, id: str) -> None:
        """Starts a run."""
        self._began = time.perf_counter()
        head = f"POST /runs/{id} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
        self.stream.sendall(head.encode())

    def seconds(self) -> float | None:
        """Reads from the connection. Returns the duration of the request when all of its answer has
        come.
        """
        piece = self.stream.recv(65536)
        assert piece, "the server closed a connection"
        self._answer += piece
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end:
            return None
        lengths = [
            line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        ]
        if len(body) < int(lengths[0].partition(b":")[2]):
            return None
        assert self._answer.startswith(_ANSWER) and body == b"4", self._answer
        self._answer = b""
        return time.perf_counter() - self._began


def _load(port: int, name: str, requests: int) -> list[float]:
    """Sends this many requests and returns how long each took."""
    connections = [_Connection(port) for _ in range(CLIENTS)]
    by_descriptor = {one.stream.fileno(): one for one in connections}
    took: list[float] = []
    sent = 0
    with select.epoll() as epoll:
        for connection in connections:
            epoll.register(connection.stream, select.EPOLLIN)
            connection.ask(f"{name}-{sent}")
            sent += 1
        while len(took) < requests:
            for descriptor, _ in epoll.poll():
                connection = by_descriptor[descriptor]
                seconds = connection.seconds()
                if seconds is None:
                    continue
                took.append(seconds)
                if sent < requests:
                    connection.ask(f"{name}-{sent}")
                    sent += 1
    for connection in connections:
        connection.stream.close()
    return took


def _wait(port: int) -> None:
    """Waits until the server answers: it listens before its lifespan has begun."""
    connection = _Connection(port)
    connection.ask("first")
    while connection.seconds() is None:
        pass
    connection.stream.close()


def _take(name: str, mode: Mode, directory: Path) -> Sample:
    requests = mode.pick(3_000, 2 * CLIENTS)
    with Child("-P", str(services.file(name)), str(directory)) as server:
        port = int(server.line())
        _wait(port)
        _load(port, "before", max(CLIENTS, requests // 5))
        begun = time.perf_counter()
        took = _load(port, "run", requests)
        seconds = time.perf_counter() - begun
    p99 = sorted(took)[len(took) * 99 // 100]
    return Sample(requests / seconds, {"p99 ms": p99 * 1e3})


MEASURE = Measure(
    name="py_embed",
    what="a FastAPI endpoint that awaits a durable run of 3 steps, 64 clients",
    unit="requests/s",
    better=Better.HIGHER,
    targets=(OfBest(5.0),),
    rounds=5,
    contenders=services.contenders(_take),
)
