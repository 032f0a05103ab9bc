"""Sagas: steps that are undone in reverse order when their block fails or is cancelled. Undoing
consists of steps too, so after a crash it continues where it stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from tiffany import _core
from tiffany.errors import Cancelled, InDoubtError, NotUndoneError, StepFailedError, TimedOutError

_T = TypeVar("_T")

_UNDO_RETRIES = 9
"""How often an undo step is retried if it does not set this itself."""


class Saga:
    """A series of steps that are undone together.

    Use it with ``async with``: if the block fails or is cancelled, its completed steps are undone,
    the last one first. If one cannot be undone, the others are undone nevertheless, and a
    `NotUndoneError` says which one is left.

    >>> import tiffany
    >>> from tiffany import step
    >>> @step
    ... def book(what):
    ...     if what == "hotel":
    ...         raise RuntimeError("no room")
    ...     return f"{what} 17"
    >>> @step
    ... def cancel_booking(number):
    ...     print("cancelled", number)
    >>> async def travel():
    ...     async with Saga() as saga:
    ...         await saga.step(book("flight"), cancel_booking)
    ...         await saga.step(book("hotel"), cancel_booking)
    >>> try:
    ...     tiffany.run(travel())
    ... except RuntimeError as error:
    ...     print(error)
    cancelled flight 17
    no room

    A generator yields ``saga.step(…)``, catches exceptions, yields ``saga.undo()`` and raises the
    exception again.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[str, Callable[[], Any] | BaseException]] = []
        self.undone: list[str] = []
        """The names of the steps that were undone, in that order."""
        self.not_undone: list[tuple[str, BaseException]] = []
        """The names of the steps that were not undone, with the reasons."""

    async def step(
        self,
        call: _core.StepCall[_T],
        undo: Callable[[_T], Any],
        *,
        in_doubt: Callable[[], Any] | None = None,
    ) -> _T:
        """Executes a step. ``undo`` is called with the step's result and returns the call that
        undoes it, or ``None``.

        A step that fails has done nothing. If it is not known whether the step was carried out,
        because it was interrupted, took too long or was cancelled, ``in_doubt`` returns the call to
        make; without it the step is reported as not undone.
        """
        name = call.step.name
        try:
            value = await call
        except (InDoubtError, TimedOutError, StepFailedError, Cancelled) as error:
            self._entries.append((name, in_doubt or error))
            raise
        self._entries.append((name, lambda: undo(value)))
        return value

    def on_failure(self, name: str, undo: Callable[[], Any]) -> None:
        """Adds something else to undo, which was done without a step of the saga."""
        self._entries.append((name, undo))

    async def undo(self) -> None:
        """Undoes everything, the last step first. What cannot be undone is listed in `not_undone`."""
        while self._entries:
            name, how = self._entries[-1]
            try:
                if isinstance(how, BaseException):
                    raise how
                await _undoing(how())
                self.undone.append(name)
            except Exception as error:
                self.not_undone.append((name, error))
            except Cancelled as error:
                if error is not how:
                    raise
                self.not_undone.append((name, error))
            self._entries.pop()

    async def __aenter__(self) -> Saga:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            return
        await self.undo()
        if not self.not_undone:
            return
        what = ", ".join(f"`{name}` ({_text(why)})" for name, why in self.not_undone)
        message = f"{_text(error)}; not undone: {what} [TFY0051]; undo the named steps by hand"
        if isinstance(error, Exception):
            raise NotUndoneError(message) from error
        # The exception ends the task, and the failure would not be reported otherwise.
        print(f"tiffany: {message}", file=sys.stderr)


async def _undoing(call: Any) -> None:
    if isinstance(call, _core.StepCall):
        options = call.step.options
        if "retries" not in options and options.get("kind") != "at_most_once":
            call = call.with_options(retries=_UNDO_RETRIES)
    elif call is not None and not isinstance(call, _core.SystemCall):
        call = _core.Call(call)
    if call is not None:
        await call


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")
