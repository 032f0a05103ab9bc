"""Runtimes shared by several coroutines of one asyncio event loop: one for each directory, opened
by the first and closed by the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Generator
from typing import Any

from tiffany._aio.guest import Guest
from tiffany._arguments import path, several
from tiffany._settings import DEFAULTS, RuntimeSettings
from tiffany.durable import _workflows
from tiffany.durable._runtime import Runtime
from tiffany.errors import OtherLoopError, OtherSettingsError, WrongThreadError


class _Shared:
    """A runtime, and the number of its users."""

    def __init__(self, settings: RuntimeSettings) -> None:
        self.settings = _compared(settings)
        self.process = os.getpid()
        self.guest = Guest(Runtime(**settings))
        self.users = 0

    def is_left(self) -> bool:
        """Whether the runtime can no longer be used: its loop ended while a call was waiting, or it
        belongs to the process that this one was forked from.
        """
        return self.is_foreign() or self.guest.loop.is_closed()

    def is_foreign(self) -> bool:
        return self.process != os.getpid()

    def check(self, directory: str, settings: RuntimeSettings) -> None:
        """Raises an error if the runtime does not match these settings."""
        if self.guest.loop is not asyncio.get_running_loop():
            raise OtherLoopError(
                f"{directory} is in use by another event loop of this process [TFY0222]; await `arun` on that "
                "loop (`asyncio.run_coroutine_threadsafe`), or use another directory"
            )
        asked = _compared(settings)
        other = sorted(name for name in asked if asked[name] != self.settings[name])
        if other:
            names = ", ".join(f"`{name}`" for name in other)
            raise OtherSettingsError(
                f"{directory} is in use by another call of `arun` with other settings: {names} [TFY0221]; "
                "calls on one directory share one runtime: give all of them the same settings"
            )


_BY_DIRECTORY: dict[str, _Shared] = {}
_LOCK = threading.RLock()
"""Held while a shared runtime is opened or closed. It is reentrant, because the end of an abandoned
coroutine may come in between on the same thread.
"""


def _renew_lock() -> None:
    """Replaces the lock in a forked process, where the thread that held it may not exist."""
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def _compared(settings: RuntimeSettings) -> dict[str, Any]:
    """Returns the settings that all users of a shared runtime must have in common. Workflows are
    added to the existing ones.
    """
    asked: dict[str, Any] = {**DEFAULTS, **settings}
    return {name: asked[name] for name in DEFAULTS if name not in ("wal", "workflows")}


@contextlib.contextmanager
def guest_of(
    directory: str | os.PathLike[str], settings: RuntimeSettings
) -> Generator[Guest, None, None]:
    """Returns the runtime of a directory, driven by the running event loop. It stays open while a
    call uses it.
    """
    key = _key(directory)
    with _LOCK:
        shared = _found(key, settings)
        shared.users += 1
    try:
        yield shared.guest
    finally:
        with _LOCK:
            shared.users -= 1
            if shared.users == 0 and _BY_DIRECTORY.get(key) is shared:
                del _BY_DIRECTORY[key]
                shared.guest.close()


def close_left(directory: str | os.PathLike[str]) -> None:
    """Closes the runtime of a directory whose event loop was closed while calls were pending."""
    with _LOCK:
        _close_left(_key(directory))


def _key(directory: str | os.PathLike[str]) -> str:
    return os.path.realpath(os.fsdecode(path("wal", directory)))


def _close_left(key: str) -> None:
    shared = _BY_DIRECTORY.get(key)
    if shared is None or not shared.is_left():
        return
    try:
        # Descriptors of another process's loop are shared with it, so nothing is closed.
        if not shared.is_foreign():
            shared.guest.close()
    except WrongThreadError:
        raise OtherLoopError(
            f"{key} is in use by an event loop of another thread, which was closed while calls of `arun` were pending "
            "[TFY0222]; let them end or cancel them before the loop is closed, as `asyncio.run` does, or use another directory"
        ) from None
    del _BY_DIRECTORY[key]


def _found(key: str, settings: RuntimeSettings) -> _Shared:
    """Returns the runtime of a directory, opening it if necessary."""
    _close_left(key)
    shared = _BY_DIRECTORY.get(key)
    if shared is None:
        shared = _BY_DIRECTORY[key] = _Shared(settings)
    else:
        shared.check(key, settings)
        functions = shared.guest.runtime._functions
        for function in several("workflows", settings.get("workflows", ())):
            functions.add(_workflows.name_of(function), function)
    return shared
