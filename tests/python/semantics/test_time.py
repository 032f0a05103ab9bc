"""Time: the run's clock."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import Now, Sleep, SleepUntil, Spawn, Timeout, Wait, Yield


@both
def test_the_clock_is_set_once_a_round() -> None:
    """ "the run's clock is set once a round": two tasks of one round read the same, whatever happens between them."""
    read: list[float] = []

    async def child(gate: Any) -> None:
        await Wait(gate)
        read.append(await Now())

    async def slow(gate: Any) -> None:
        await Wait(gate)
        now = Now()
        time.sleep(0.005)
        read.append(await now)

    async def main() -> None:
        gate = await tiffany.calls.CreatePromise()
        for program in (child(gate.future), slow(gate.future), child(gate.future)):
            await Spawn(program)
        await gate.complete()

    tiffany.run(main())
    assert len(read) == 3
    assert len(set(read)) == 1


@both
def test_the_clock_never_goes_back() -> None:
    """ "never goes back" """

    async def main() -> list[float]:
        read: list[float] = []
        for n in range(50):
            read.append(await Now())
            await (Sleep(0.0001) if n % 5 == 0 else Yield())
        return read

    read = tiffany.run(main())
    assert read == sorted(read)


@both
def test_the_clock_is_what_all_read() -> None:
    """ "is what Now, Sleep, SleepUntil and timeouts read.": seconds since 1970, numbers as well as the types of `datetime`."""

    async def main() -> list[float]:
        start = await Now()
        await Sleep(0.002)
        slept = await Now()
        await SleepUntil(slept + 0.002)
        until = await Now()
        await Sleep(timedelta(milliseconds=2))
        delta = await Now()
        await SleepUntil(datetime.fromtimestamp(delta + 0.002, UTC))
        at = await Now()
        return [start, slept, until, delta, at]

    before = time.time()
    read = tiffany.run(main())
    assert before - 1 < read[0] < time.time() + 1
    steps = [later - earlier for earlier, later in itertools.pairwise(read)]
    # A float of seconds since 1970 is good for less than a microsecond.
    assert all(0.002 - 1e-6 < step < 1 for step in steps), steps


@both
def test_a_moment_that_is_over() -> None:
    """ "Sleep, SleepUntil": a moment that is over is no wait."""

    async def main() -> float:
        start = await Now()
        await SleepUntil(start - 3600)
        await Sleep(0)
        return await Now() - start

    assert tiffany.run(main()) < 1


@both
def test_timeouts_read_it() -> None:
    """ "is what Now, Sleep, SleepUntil and timeouts read.": a program that takes longer is cancelled, and its `finally` runs."""
    seen: list[str] = []

    async def quick() -> str:
        await Yield()
        return "value"

    async def slow() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("cancelled")

    async def main() -> tuple[str, str]:
        value = await Timeout(60, quick())
        try:
            await Timeout(0.001, slow())
        except TimeoutError as error:
            assert isinstance(error, tiffany.errors.TimedOutError)
            return value, error.code
        raise AssertionError

    assert tiffany.run(main()) == ("value", "TFY0028")
    assert seen == ["cancelled"]


@both
def test_what_a_timeout_limits_ends_with_it() -> None:
    """ "Suspended or Blocked: its waits are withdrawn": who is cancelled in a timeout takes the limited program along."""
    seen: list[str] = []

    async def slow() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("inner")

    async def limited() -> None:
        await Timeout(60, slow())

    async def main() -> None:
        task = await Spawn(limited())
        for _ in range(4):
            await Yield()
        await task.cancel()

    tiffany.run(main())
    assert seen == ["inner"]


@both
def test_timers_fire_by_deadline_and_order_of_arming() -> None:
    """ "Timers fire by (deadline, order of arming)." """
    seen: list[str] = []

    async def at(when: float, name: str) -> None:
        await SleepUntil(when)
        seen.append(name)

    async def main() -> None:
        now = await Now()
        for offset, name in ((0.05, "d"), (0.03, "b"), (0.05, "e"), (0.02, "a"), (0.04, "c")):
            await Spawn(at(now + offset, name))

    tiffany.run(main())
    assert "".join(seen) == "abcde"


@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), 1e300, "1", None, timedelta(-1)])
def test_what_is_no_duration(given: Any) -> None:
    """ "Sleep, SleepUntil and timeouts": what is no duration is an error where it is given."""
    limited: Any = partial(cast(Any, Timeout), program=None)
    for make in (Sleep, limited, tiffany.sleep):
        with pytest.raises(tiffany.errors.BadArgumentError) as caught:
            make(given)
        assert caught.value.code == "TFY0013"


@pytest.mark.parametrize("given", [-1.0, float("nan"), float("inf"), 1e300, "1", None])
def test_what_is_no_moment(given: Any) -> None:
    """ "SleepUntil": what is no moment is an error where it is given."""
    with pytest.raises(tiffany.errors.BadArgumentError) as caught:
        SleepUntil(given)
    assert caught.value.code == "TFY0013"
