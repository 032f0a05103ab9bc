"""Calls that are written down and never made: a warning at the line, as Python has it for coroutines."""

from __future__ import annotations

import gc
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any

import pytest
import tiffany
from tiffany import now, sleep, spawn, step, yield_now
from tiffany.calls import Now, Sleep, SystemCall, create_promise


class Own(SystemCall[int]):
    pass


@step
def charge(n: int) -> int:
    return n


def run_warned(program: Any, **settings: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tiffany.run(program, **settings)
    return caught


DROPPED: list[tuple[str, Callable[[], object]]] = [
    ("Sleep", lambda: sleep(1)),
    ("Now", lambda: Now()),
    ("Own", lambda: Own()),
    ("charge", lambda: charge(3)),
    ("Gather", lambda: tiffany.gather(sleep(1), sleep(2))),
    ("Timeout", lambda: tiffany.timeout(1, sleep(1))),
    ("Blocking", lambda: tiffany.calls.blocking(len, "")),
    ("charge", lambda: charge(3).with_options(retries=2)),
]


@pytest.mark.parametrize(("name", "drop"), DROPPED, ids=[name for name, _ in DROPPED])
def test_a_call_that_nobody_makes_is_warned_of_once_at_its_line(
    name: str, drop: Callable[[], object]
) -> None:
    async def main() -> None:
        drop()

    (warning,) = run_warned(main())
    assert warning.category is RuntimeWarning
    assert str(warning.message).startswith(f"call '{name}' was never awaited or yielded [TFY0055]")
    assert warning.filename == __file__
    assert warning.lineno == drop.__code__.co_firstlineno or warning.lineno > 40


def test_in_a_generator_too() -> None:
    def main() -> Generator[Any, Any, None]:
        Sleep(1)
        yield

    (warning,) = run_warned(main())
    assert (warning.filename, warning.lineno) == (
        __file__,
        main.__code__.co_firstlineno + 1,
    )


def test_calls_that_methods_give_are_warned_of() -> None:
    async def main() -> None:
        promise = await create_promise()
        promise.complete(1)

    (warning,) = run_warned(main())
    assert "CompletePromise" in str(warning.message)


def test_calls_that_are_made_late_or_by_somebody_else_are_not() -> None:
    def handler(call: SystemCall[Any], tid: int) -> object:
        return Sleep(call.seconds) if isinstance(call, Sleep) else None

    def old() -> Generator[Any, Any, None]:
        calls = [Sleep(0), Now()]
        for call in calls:  # noqa: UP028  # it is sent something
            yield call
        yield tiffany.calls.Call(new())

    async def new() -> None:
        kept = sleep(0)
        await yield_now()
        await kept
        await kept
        await tiffany.gather(now(), sleep(0))
        await tiffany.timeout(1, now())
        await (await spawn(now()))
        mutex = await tiffany.create_mutex()
        channel = await tiffany.create_channel(1)
        async with mutex:
            await channel.send(1)
        channel.close()
        assert [message async for message in channel] == [1]
        group = await tiffany.create_group()
        async with group:
            await spawn(now(), group=group)

    assert run_warned(old(), handlers=[handler]) == []


def test_outside_of_a_task_nobody_warns() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert repr(Sleep(1)) == "Sleep(1)"
        gc.collect()
    assert caught == []


def test_an_exception_that_passes_is_kept() -> None:
    async def main() -> str:
        try:
            [sleep(1), 1 / 0]
        except ZeroDivisionError as error:
            return str(error)
        return "nothing"

    with pytest.warns(RuntimeWarning, match="TFY0055"):
        assert tiffany.run(main()) == "division by zero"


def test_as_an_error_it_is_shown_and_nothing_else_happens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    import sys

    async def main() -> int:
        sleep(1)
        return 5

    shown: list[str] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda told: shown.append(str(told.exc_value))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert tiffany.run(main()) == 5
    finally:
        sys.unraisablehook = hook
    assert len(shown) == 1 and "TFY0055" in shown[0]


async def child() -> None:
    pass


@pytest.mark.parametrize(
    "given", [{"priority": 999}, {"name": 7}, {"group": "mine"}, {"handlers": 7}]
)
@pytest.mark.parametrize("make", [tiffany.calls.Spawn, tiffany.spawn])
def test_a_coroutine_whose_spawn_is_refused_is_closed(make: Any, given: dict[str, Any]) -> None:
    """Only what is wrong is said, and not that the coroutine was never awaited."""
    coroutine = child()
    with pytest.raises(tiffany.errors.BadArgumentError):
        make(coroutine, **given)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
