"""I/O: waiting for descriptors."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import ReadWait, Spawn, Wait, WriteWait, Yield


@both
def test_any_descriptor() -> None:
    """ "ReadWait and WriteWait on any descriptor": a number, or anything that has one; pipes and sockets."""

    async def reads(file: Any, fd: int) -> bytes:
        await ReadWait(file)
        return os.read(fd, 10)

    async def main() -> list[bytes]:
        reader, writer = os.pipe()
        left, right = socket.socketpair()
        tasks = [
            await Spawn(reads(reader, reader)),
            await Spawn(reads(left, left.fileno())),
        ]
        await Yield()
        await WriteWait(writer)
        os.write(writer, b"pipe")
        await WriteWait(right)
        right.send(b"socket")
        got: list[bytes] = []
        for task in tasks:
            got.append(await Wait(task))
        for fd in (reader, writer):
            os.close(fd)
        left.close()
        right.close()
        return got

    assert tiffany.run(main()) == [b"pipe", b"socket"]


@both
def test_several_waiters_are_served_in_order() -> None:
    """ "several waiters on one are served in order" """
    seen: list[int] = []
    reader, writer = os.pipe()

    async def reads(n: int) -> None:
        await ReadWait(reader)
        os.read(reader, 1)
        seen.append(n)

    async def main() -> None:
        for n in range(4):
            await Spawn(reads(n))
        await Yield()
        os.write(writer, b"four")

    tiffany.run(main())
    os.close(reader)
    os.close(writer)
    assert seen == [0, 1, 2, 3]


@both
def test_a_bad_one_is_an_error_in_the_waiter() -> None:
    """ "a closed or bad one is an error in the waiter, never a hang.": it can be caught there, and is an `OSError`."""

    async def main() -> list[str]:
        reader, writer = os.pipe()
        os.close(reader)
        os.close(writer)
        said: list[str] = []
        for call in (ReadWait(reader), WriteWait(reader), ReadWait(-1)):
            try:
                await call
            except OSError as error:
                assert isinstance(error, tiffany.errors.BadDescriptorError)
                said.append(error.code)
        return said

    assert tiffany.run(main()) == ["TFY0011"] * 3


@both
def test_the_end_of_the_other_side_wakes() -> None:
    """ "a closed or bad one is an error in the waiter, never a hang.": if the other side is closed, the waiter is woken."""

    async def reads(reader: int) -> bytes:
        await ReadWait(reader)
        return os.read(reader, 1)

    async def main() -> bytes:
        reader, writer = os.pipe()
        task = await Spawn(reads(reader))
        await Yield()
        os.close(writer)
        end = await Wait(task)
        os.close(reader)
        return end

    assert tiffany.run(main()) == b""


class Broken:
    def fileno(self) -> int:
        raise RuntimeError("no descriptor today")


@pytest.mark.parametrize("given", ["text", None, object(), Broken(), 1 << 40])
def test_what_has_no_descriptor(given: Any) -> None:
    """ "on any descriptor": what has none is an error where it is given."""
    for make in (ReadWait, WriteWait):
        with pytest.raises(tiffany.errors.BadDescriptorError, match="TFY0011"):
            make(given)
