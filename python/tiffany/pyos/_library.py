"""Non-blocking socket operations: generators that a task yields. The last value that they yield is
the result.
"""

from __future__ import annotations

from collections.abc import Generator
from socket import MSG_DONTWAIT, socket
from typing import Any

from tiffany.pyos._calls import ReadWait, WriteWait


def Accept(sock: socket) -> Generator[Any, Any, None]:
    """Waits for a connection and returns it with its address."""
    while True:
        yield ReadWait(sock)
        try:
            accepted = sock.accept()
        except BlockingIOError:
            continue
        yield accepted


def Send(sock: socket, buffer: bytes) -> Generator[Any, Any, None]:
    """Sends everything in the buffer."""
    # A blocking socket would block all tasks until the other side has received everything.
    flags = MSG_DONTWAIT if type(sock) is socket else 0
    left = memoryview(buffer)
    while left:
        yield WriteWait(sock)
        try:
            left = left[sock.send(left, flags) if flags else sock.send(left) :]
        except BlockingIOError:
            continue


def Recv(sock: socket, maxbytes: int) -> Generator[Any, Any, None]:
    """Waits for data and returns at most ``maxbytes`` bytes; none at the end of the stream."""
    while True:
        yield ReadWait(sock)
        try:
            received = sock.recv(maxbytes)
        except BlockingIOError:
            continue
        yield received
