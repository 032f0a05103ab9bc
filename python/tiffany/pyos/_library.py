"""Sockets without blocking: generators that a task yields. What they yield last is what the task gets."""

from __future__ import annotations

from collections.abc import Generator
from socket import MSG_DONTWAIT, socket
from typing import Any

from tiffany.pyos._calls import ReadWait, WriteWait


def Accept(sock: socket) -> Generator[Any, Any, None]:
    """Waits for a connection, and gives it with its address."""
    while True:
        yield ReadWait(sock)
        try:
            accepted = sock.accept()
        except BlockingIOError:
            continue
        yield accepted


def Send(sock: socket, buffer: bytes) -> Generator[Any, Any, None]:
    """Sends everything in the buffer."""
    # A socket that blocks would let all tasks wait until the other side has taken everything.
    flags = MSG_DONTWAIT if type(sock) is socket else 0
    left = memoryview(buffer)
    while left:
        yield WriteWait(sock)
        try:
            left = left[sock.send(left, flags) if flags else sock.send(left) :]
        except BlockingIOError:
            continue


def Recv(sock: socket, maxbytes: int) -> Generator[Any, Any, None]:
    """Waits for bytes, and gives at most so many; none at the end."""
    while True:
        yield ReadWait(sock)
        try:
            received = sock.recv(maxbytes)
        except BlockingIOError:
            continue
        yield received
