"""A socket whose methods are generators for tasks: ``client, address = yield sock.accept()``."""

from __future__ import annotations

from collections.abc import Generator
from socket import socket
from typing import Any

from tiffany.pyos._library import Accept, Recv, Send


class Socket:
    """Wraps a socket. Tasks yield the result of each method."""

    def __init__(self, sock: socket) -> None:
        self.sock = sock

    def accept(self) -> Generator[Any, Any, None]:
        """Waits for a connection and returns it, wrapped, with its address."""
        client, address = yield Accept(self.sock)
        yield Socket(client), address

    def send(self, buffer: bytes) -> Generator[Any, Any, None]:
        """Sends everything in the buffer."""
        yield Send(self.sock, buffer)

    def recv(self, maxbytes: int) -> Generator[Any, Any, None]:
        """Waits for data and returns at most ``maxbytes`` bytes; none at the end of the stream."""
        received = yield Recv(self.sock, maxbytes)
        yield received

    def close(self) -> Generator[Any, Any, None]:
        """Closes the socket."""
        self.sock.close()
        yield None


__all__ = ["Socket"]
