"""How each peer runs a program. All have their default settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def with_asyncio(main: Coroutine[Any, Any, T]) -> T:
    """Runs it on the standard library's event loop, whose tasks are written in C."""
    return asyncio.run(main)


def with_uvloop(main: Coroutine[Any, Any, T]) -> T:
    """Runs it on asyncio with libuv."""
    import uvloop

    value: T = uvloop.run(main)
    return value


def with_trio(main: Callable[[], Awaitable[T]]) -> T:
    """Runs it on trio, without instruments."""
    import trio

    value: T = trio.run(main)
    return value
