"""Closing async generators that were left before their end. Rust decides when."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable
from typing import Any, TypeAlias

from tiffany import _core
from tiffany.errors import OutsideTaskError

AsyncGen: TypeAlias = AsyncGenerator[Any, Any]

_NOTE = (
    "tiffany: this async generator was left before its end, and closed where no call can be made; "
    "go through it inside `async with contextlib.aclosing(…)`"
)


def close_all(generators: Iterable[AsyncGen]) -> Generator[Any, Any, None]:
    """Closes generators one after the other, as a program. An exception in one of them is printed."""
    for generator in generators:
        try:
            yield from generator.aclose()  # type: ignore[misc]  # it is an iterator, as all that awaits is
        except Exception as error:
            _core._show_unraisable(error, generator)


def close_before(generators: Iterable[AsyncGen], call: Any) -> Generator[Any, Any, Any]:
    """Closes generators, then makes a call and returns its answer, as a program."""
    yield from close_all(generators)
    return (yield call)


def close_now(generator: AsyncGen) -> None:
    """Closes a generator where no task runs, or none that may make calls for it. A call that the
    generator makes there is an error.
    """
    if generator.ag_running or generator.ag_frame is None:  # type: ignore[attr-defined]
        return
    closing = generator.aclose()
    refused = OutsideTaskError("a call was made where none can be made [TFY0004]")
    try:
        closing.send(None)
        closing.throw(refused)
    except StopIteration:
        return
    except BaseException as error:
        error.add_note(_NOTE)
        _core._show_unraisable(error, generator)
    else:
        _core._show_unraisable(refused, generator)
