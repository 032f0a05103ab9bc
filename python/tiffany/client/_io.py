"""The seam between what a client does and how it waits.

Everything a client does is written once, as generators that yield actions. `Blocking` carries the
actions out on the calling thread; `tiffany.client._asyncio` does the same under asyncio. Nothing
here knows a protocol.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Action = Callable[[Any], Any]
"""What is to be done by the one who drives a program: a call of one of its methods."""
Program = Generator[Action, Any, T]
"""A part of a client, as a generator of actions."""

MAX_LINE_BYTES = 64 << 20
"""So long may a line be that is read."""
CONNECT_SECONDS = 10.0
"""How long a connection may take."""
_PIECE_BYTES = 1 << 16
_MAX_SOCKET_PATH = 100


class Closed(Exception):
    """The other side closed the connection, or it broke."""


@dataclass(frozen=True)
class Address:
    """Where a process listens: the path of a Unix socket, or a host and a port with or without
    TLS.
    """

    host: str
    port: int | None = None
    tls: Any = None

    def __str__(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


class BlockingWire:
    """A connection that blocks the thread which uses it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._bytes = bytearray()

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        with _broken():
            self._socket.settimeout(CONNECT_SECONDS * 3)
            self._socket.sendall(data)

    def line(self, timeout: float | None) -> bytes:
        """Returns the next line, its end included."""
        looked = 0
        while (end := self._bytes.find(b"\n", looked)) < 0:
            looked = len(self._bytes)
            if looked > MAX_LINE_BYTES:
                raise Closed("a line without an end")
            self._more(timeout)
        return self._take(end + 1)

    def exactly(self, count: int, timeout: float | None) -> bytes:
        """Returns this number of bytes."""
        while len(self._bytes) < count:
            self._more(timeout)
        return self._take(count)

    def rest(self, timeout: float | None) -> bytes:
        """Returns everything up to the end of the connection."""
        with contextlib.suppress(Closed):
            while True:
                self._more(timeout)
        return self._take(len(self._bytes))

    def is_stale(self) -> bool:
        """Whether the other side closed it while it was not used."""
        if self._bytes:
            return True
        with contextlib.suppress(OSError, ValueError):
            return bool(select.select([self._socket], [], [], 0)[0])
        return True

    def close(self) -> None:
        """Closes it. A thread that waits for it is woken."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _take(self, count: int) -> bytes:
        taken = bytes(self._bytes[:count])
        del self._bytes[:count]
        return taken

    def _more(self, timeout: float | None) -> None:
        with _broken():
            self._socket.settimeout(timeout)
            piece = self._socket.recv(_PIECE_BYTES)
        if not piece:
            raise Closed("it ended the connection")
        self._bytes += piece


@contextlib.contextmanager
def _broken() -> Generator[None]:
    """Makes the errors of a broken connection `Closed`. Errors of TLS and timeouts stay."""
    try:
        yield
    except (TimeoutError, InterruptedError):
        raise
    except OSError as error:
        if type(error).__module__ == "ssl" and type(error).__name__ != "SSLEOFError":
            raise
        raise Closed(str(error)) from error


@contextlib.contextmanager
def socket_path(path: str) -> Generator[str]:
    """A path for a socket that may be longer than the system takes."""
    if len(os.fsencode(path)) < _MAX_SOCKET_PATH:
        yield path
        return
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)


def check_peer(sock: socket.socket, path: str) -> None:
    """Raises an error if the socket of a directory is that of another user than this one, root or
    the directory's owner.
    """
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if uid not in (os.geteuid(), 0, os.stat(os.path.dirname(path)).st_uid):
        raise PermissionError(f"its socket is that of another user, {uid}")


class Blocking:
    """Carries out actions on the thread that calls it. Threads may share it."""

    def __init__(self, control: Any = None) -> None:
        self.control = control
        self._idle: deque[BlockingWire] = deque()

    def open(self, address: Address) -> BlockingWire:
        """Connects."""
        if address.port is None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                with socket_path(address.host) as path:
                    sock.connect(path)
                check_peer(sock, address.host)
            except BaseException:
                sock.close()
                raise
            return BlockingWire(sock)
        sock = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        if address.tls is None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return BlockingWire(sock)
        try:
            return BlockingWire(address.tls.wrap_socket(sock, server_hostname=address.host))
        except BaseException:
            sock.close()
            raise

    def take(self) -> BlockingWire | None:
        """Returns a connection that is idle, if there is one."""
        with contextlib.suppress(IndexError):
            while True:
                wire = self._idle.pop()
                if not wire.is_stale():
                    return wire
                wire.close()
        return None

    def give(self, wire: BlockingWire) -> None:
        """Takes a connection back that may be used again."""
        self._idle.append(wire)

    def enter(self) -> Callable[[], None]:
        """A request begins. What is returned ends it."""
        return _nothing

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def ask(self, text: str) -> str:
        """Asks the process that owns the directory, or the directory itself."""
        answer: str = self.control.ask_text(text)
        return answer

    def run(self, program: Program[T]) -> T:
        """Runs a program to its end."""
        try:
            action = next(program)
            while True:
                try:
                    done = action(self)
                except Exception as error:
                    action = program.throw(error)
                else:
                    action = program.send(done)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            program.close()

    def close(self) -> None:
        """Closes idle connections."""
        while self._idle:
            self._idle.pop().close()


def _nothing() -> None:
    """Does nothing."""


def action(name: str, *given: Any) -> Action:
    """Returns the action of one method of the driver."""
    return functools.partial(_call, name, given)


def _call(name: str, given: tuple[Any, ...], driver: Any) -> Any:
    return getattr(driver, name)(*given)
