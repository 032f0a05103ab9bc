"""Arguments that make no sense: the error names them, says what they may be, and guesses what was meant."""

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
_MOST = 2**63 - 1


def bad(message: str, next_step: str = "correct what was given") -> BadArgumentError:
    """The error for an argument that cannot be what it is.

    >>> bad("`retries` is a whole number, not 'a'")
    BadArgumentError("`retries` is a whole number, not 'a' [TFY0032]; correct what was given")
    """
    return BadArgumentError(f"{message} [TFY0032]; {next_step}")


def check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """An error if something is given by a name that is not known.

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
            # Of those that are near, the one that begins alike.
            near.sort(key=lambda other: other[:2] != name[:2])
            step = f"did you mean `{near[0]}`?" if near else f"it takes {', '.join(names)}"
            raise bad(f"{what} takes no `{name}`", step)


def known_names_only(what: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Lets a function say so when it is given something by a name that it does not know."""

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
    """An error if an event loop runs on this thread: it would stand still while this call waits. Inside a task the error is another one."""
    # Programs without asyncio do not pay for it.
    events = sys.modules.get("asyncio.events")
    if events is not None and events._get_running_loop() is not None and not _core._is_looping():
        raise RunningLoopError(
            f"{what} was called inside a running event loop, which would stand still until the run has finished "
            f"[TFY0223]; {instead}"
        )


def close_unbegun(program: object) -> None:
    """Closes a coroutine that will not be run, so that Python does not say that it was never awaited."""
    if inspect.iscoroutine(program) and inspect.getcoroutinestate(program) == inspect.CORO_CREATED:
        program.close()


def number(what: str, given: Any) -> float:
    """A number that can be reckoned with.

    >>> number("`factor`", True)
    Traceback (most recent call last):
        ...
    tiffany.errors.BadArgumentError: `factor` is a number, not True [TFY0032]; correct what was given
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or math.isnan(given):
        raise bad(f"{what} is a number, not {given!r}")
    return given


def whole(what: str, given: Any, *, least: int = 0) -> int:
    """A whole number that Rust can hold."""
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= _MOST:
        raise bad(f"{what} is a whole number from {least} to {_MOST}, not {given!r}")
    return given


def seconds(what: str, given: Any) -> float:
    """A number of seconds, or a ``timedelta``.

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
    """A path, as the system has it."""
    try:
        return os.fspath(given)  # type: ignore[no-any-return]
    except TypeError:
        raise bad(f"`{name}` is a path, not {given!r}") from None


def mapping(name: str, given: Any) -> dict[Any, Any]:
    """A dictionary of its own, of what is one."""
    if not isinstance(given, Mapping):
        raise bad(f"`{name}` is a dictionary, not {given!r}")
    return dict(given)


def several(name: str, given: Any) -> list[Any]:
    """A list of its own, of what can be gone through."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise bad(f"`{name}` is a list, not {given!r}")
    return list(given)


def user(name: str | None) -> str:
    """The name of a person, or that of the user whose process this is.

    >>> user("ada")
    'ada'
    """
    if name is not None:
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.geteuid()}"
