"""Invalid arguments: the error names the argument, says what is allowed, and suggests what was
meant.
"""

from __future__ import annotations

import difflib
import functools
import getpass
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from tiffany import _core
from tiffany.errors import BadArgumentError, RunningLoopError

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MAX_INT = 2**63 - 1


def bad(message: str, next_step: str = "correct what was given") -> BadArgumentError:
    """Returns the error for an invalid argument.

    >>> bad("`retries` is a whole number, not 'a'")
    BadArgumentError("`retries` is a whole number, not 'a' [TFY0032]; correct what was given")
    """
    return BadArgumentError(f"{message} [TFY0032]; {next_step}")


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises an error if an argument has an unknown name.

    >>> check_names("@step", ["retry"], ["no_retry", "retries", "timeout"])
    Traceback (most recent call last):
        ...
    tiffany.errors.BadArgumentError: @step takes no `retry` [TFY0032]; did you mean `retries`?
    >>> check_names("@step", ["colour"], ["retries", "timeout"])
    Traceback (most recent call last):
        ...
    tiffany.errors.BadArgumentError: @step takes no `colour` [TFY0032]; it takes retries, timeout
    """
    names = list(known)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names)
            # Of the similar names, the one with the longest common prefix.
            near.sort(key=lambda other: other[:2] != name[:2])
            step = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(names)}"
            raise bad(f"{what} takes no `{name}`", step)


def known_names_only(what: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Makes a function report keyword arguments with unknown names."""

    def of(function: Callable[_P, _T]) -> Callable[_P, _T]:
        parameters = inspect.signature(function).parameters.values()
        known = [p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY and p.name != "self"]

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            if not kwargs.keys() <= set(known):
                for argument in args:
                    close_unbegun(argument)
                check_names(what, kwargs, known)
            return function(*args, **kwargs)

        return checked

    return of


def check_no_running_loop(
    what: str, instead: str = "write `await tiffany.arun(...)` instead"
) -> None:
    """Raises an error if an event loop runs on this thread, because this call would block it.
    Inside a task the error is a different one.
    """
    # Programs without asyncio don't import it.
    events = sys.modules.get("asyncio.events")
    if events is not None and events._get_running_loop() is not None and not _core._is_looping():
        raise RunningLoopError(
            f"{what} was called inside a running event loop, which would be blocked until the run has finished "
            f"[TFY0223]; {instead}"
        )


def close_unbegun(program: object) -> None:
    """Closes a coroutine that will not run, so that Python does not warn that it was never awaited."""
    if inspect.iscoroutine(program) and inspect.getcoroutinestate(program) == inspect.CORO_CREATED:
        program.close()


def number(what: str, given: Any) -> float:
    """Checks that an argument is a finite number.

    >>> number("`factor`", True)
    Traceback (most recent call last):
        ...
    tiffany.errors.BadArgumentError: `factor` is a number, not True [TFY0032]; correct what was given
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or math.isnan(given):
        raise bad(f"{what} is a number, not {given!r}")
    return given


def whole(what: str, given: Any, *, least: int = 0) -> int:
    """Checks that an argument is a whole number that fits into Rust's type."""
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= _MAX_INT:
        raise bad(f"{what} is a whole number from {least} to {_MAX_INT}, not {given!r}")
    return given


def seconds(what: str, given: Any) -> float:
    """Converts a number of seconds or a ``timedelta`` to seconds.

    >>> seconds("`timeout`", -1)
    Traceback (most recent call last):
        ...
    tiffany.errors.BadArgumentError: `timeout` is a number of seconds from 0 on, or a timedelta, not -1 [TFY0032]; correct what was given
    """
    found = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not found >= 0:
        raise bad(f"{what} is a number of seconds from 0 on, or a timedelta, not {given!r}")
    try:
        return float(found)
    except OverflowError:
        return math.inf


def path(name: str, given: Any) -> str | bytes:
    """Converts a path to the operating system's form."""
    try:
        return os.fspath(given)  # type: ignore[no-any-return]
    except TypeError:
        raise bad(f"`{name}` is a path, not {given!r}") from None


def mapping(name: str, given: Any) -> dict[Any, Any]:
    """Copies a mapping into a dictionary."""
    if not isinstance(given, Mapping):
        raise bad(f"`{name}` is a dictionary, not {given!r}")
    return dict(given)


def several(name: str, given: Any) -> list[Any]:
    """Copies an iterable into a list."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise bad(f"`{name}` is a list, not {given!r}")
    return list(given)


def user(name: str | None) -> str:
    """Returns the given name of a person, or the name of the user who owns this process.

    >>> user("ada")
    'ada'
    """
    if name is not None:
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.geteuid()}"
