"""Carries the actions of a client out under asyncio: no thread is used, however many wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tiffany.client._io import (
    CONNECT_SECONDS,
    MAX_LINE_BYTES,
    Address,
    Closed,
    Program,
    check_peer,
    socket_path,
)

T = TypeVar("T")

_MAX_REQUESTS = 64
"""The number of requests of one client at once; others wait for their turn."""


class AsyncWire:
    """A connection of an event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Sends all of it."""
        self._writer.write(data)
        await _within(self._writer.drain(), CONNECT_SECONDS * 3)

    async def line(self, timeout: float | None) -> bytes:
        """Returns the next line, its end included."""
        line = await _within(self._reader.readline(), timeout)
        if not line.endswith(b"\n"):
            raise Closed("it ended the connection")
        return line

    async def exactly(self, count: int, timeout: float | None) -> bytes:
        """Returns this number of bytes."""
        return await _within(self._reader.readexactly(count), timeout)

    async def rest(self, timeout: float | None) -> bytes:
        """Returns everything up to the end of the connection."""
        return await _within(self._reader.read(), timeout)

    def is_stale(self) -> bool:
        """Whether the other side closed it while it was not used."""
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        """Closes it."""
        self._writer.close()


async def _within(waited: Awaitable[T], timeout: float | None) -> T:
    """Waits, and makes the errors of a broken connection `Closed`."""
    try:
        if timeout is None:
            return await waited
        return await asyncio.wait_for(waited, timeout)
    except TimeoutError:
        raise
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        if type(error).__module__ == "ssl" and type(error).__name__ != "SSLEOFError":
            raise
        raise Closed(str(error)) from error


class Awaiting:
    """Carries out actions on the running event loop."""

    def __init__(self) -> None:
        self._idle: deque[AsyncWire] = deque()
        self._room = asyncio.Semaphore(_MAX_REQUESTS)

    async def open(self, address: Address) -> AsyncWire:
        """Connects."""
        if address.port is None:
            with socket_path(address.host) as path:
                opening = asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
                reader, writer = await asyncio.wait_for(opening, CONNECT_SECONDS)
            try:
                check_peer(writer.get_extra_info("socket"), address.host)
            except BaseException:
                writer.close()
                raise
            return AsyncWire(reader, writer)
        name = None if address.tls is None else address.host
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(
                address.host,
                address.port,
                ssl=address.tls,
                limit=MAX_LINE_BYTES,
                server_hostname=name,
            ),
            CONNECT_SECONDS,
        )
        return AsyncWire(reader, writer)

    async def take(self) -> AsyncWire | None:
        """Returns a connection that is idle, if there is one."""
        while self._idle:
            wire = self._idle.pop()
            if not wire.is_stale():
                return wire
            wire.close()
        return None

    async def give(self, wire: AsyncWire) -> None:
        """Takes a connection back that may be used again."""
        self._idle.append(wire)

    async def enter(self) -> Callable[[], None]:
        """A request begins, when there is room for it. What is returned ends it."""
        await self._room.acquire()
        return self._room.release

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def run(self, program: Program[T]) -> T:
        """Runs a program to its end."""
        try:
            action = next(program)
            while True:
                try:
                    done = action(self)
                    if asyncio.iscoroutine(done):
                        done = await done
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
        with contextlib.suppress(RuntimeError):
            while self._idle:
                self._idle.pop().close()
