"""The test kit: the scheduler stepped by hand, the virtual clock, answers put in."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import tiffany
from tiffany import testing
from tiffany.calls import (
    Aio,
    Blocking,
    CreateExternalPromise,
    CreatePromise,
    Gather,
    InThread,
    NewUuid,
    Now,
    Put,
    Random,
    Receive,
    Sleep,
    Spawn,
    SystemCall,
    Wait,
    Yield,
)
from tiffany.testing import Scheduler

Steps = Generator[Any, Any, Any]


def test_a_step_is_one_turn() -> None:
    turns: list[str] = []

    def child(name: str) -> Steps:
        for n in range(2):
            turns.append(f"{name}{n}")
            yield

    def main() -> Steps:
        yield Spawn(child("a"))
        yield Spawn(child("b"))

    scheduler = Scheduler(main())
    seen = []
    while scheduler.step():
        seen.append(list(turns))
    assert turns == ["a0", "a1", "b0", "b1"]
    assert all(len(later) - len(earlier) <= 1 for earlier, later in pairwise(seen))
    assert len(seen) == 3 + 3 + 3
    assert not scheduler.step()
    assert scheduler.finish() is None


def test_tasks_are_shown_with_what_they_wait_for_and_where() -> None:
    def sleeper() -> Steps:
        yield Sleep(60)

    def receiver() -> Steps:
        channel = yield tiffany.calls.CreateChannel()
        yield Receive(channel)

    def main() -> Steps:
        first = yield Spawn(sleeper(), name="sleeper")
        second = yield Spawn(receiver())
        promise = yield CreateExternalPromise()
        yield Gather(first, second, promise.future)

    with Scheduler(main(), name="main") as scheduler:
        scheduler.run_until_idle()
        tasks = scheduler.tasks()
        assert [task.tid for task in tasks] == [1, 2, 3]
        assert [task.name for task in tasks] == ["main", "sleeper", None]
        assert [task.state for task in tasks] == [
            "Blocked(gather)",
            "Blocked(sleep)",
            "Blocked(message)",
        ]
        assert tasks[0].waits_for == "all of task 2 `sleeper`, task 3, promise 2"
        assert tasks[1].waits_for == "a timer"
        assert tasks[2].waits_for == "a message in channel 1"
        first = main.__code__.co_firstlineno
        assert tasks[0].line == f"{__file__}:{first + 4}"
        assert tasks[1].line == f"{__file__}:{sleeper.__code__.co_firstlineno + 1}"
        assert tasks[1].spawned_at == f"{__file__}:{first + 1}"
        assert scheduler.task(2) == tasks[1]
        assert scheduler.task(9) is None


def test_the_clock_moves_when_it_is_told_to() -> None:
    fired: list[tuple[str, float]] = []

    def child(name: str, seconds: float) -> Steps:
        yield Sleep(seconds)
        fired.append((name, (yield Now())))

    def main() -> Steps:
        yield Spawn(child("late", 20))
        yield Spawn(child("early", 5))

    scheduler = Scheduler(main())
    scheduler.run_until_idle()
    assert (scheduler.now(), fired) == (0.0, [])
    scheduler.advance(4.5)
    assert fired == []
    scheduler.advance(timedelta(seconds=1))
    assert fired == [("early", 5.0)]
    assert scheduler.now() == 5.5
    scheduler.finish()
    assert fired[1:] == [("late", 20.0)]


def test_the_clock_can_start_anywhere() -> None:
    def main() -> Steps:
        return (yield Now())

    begun = datetime(2030, 1, 1, tzinfo=UTC)
    assert Scheduler(main(), now=begun).finish() == begun.timestamp()
    with pytest.raises(tiffany.TiffanyError) as caught:
        Scheduler(now=-1)
    assert caught.value.code == "TFY0013"


def test_a_whole_program_runs_in_no_time_and_the_same_each_time() -> None:
    def main() -> Steps:
        yield Sleep(timedelta(days=365))
        return (yield Now()), (yield Random()), (yield NewUuid())

    begun = time.monotonic()
    first, second = testing.run(main()), testing.run(main())
    assert time.monotonic() - begun < 30
    assert first == second
    assert first[0] == 365 * 24 * 3600.0


def test_the_clock_of_run_is_the_system_s_or_virtual() -> None:
    def main() -> Steps:
        yield Sleep(3600)
        return (yield Now())

    assert tiffany.run(main(), clock="virtual") == 3600.0
    with pytest.raises(tiffany.errors.BadArgumentError, match='not "sundial"'):
        tiffany.run(main(), clock="sundial")  # type: ignore[arg-type]


class Add(SystemCall[int]):
    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b


def traced() -> list[str]:
    def child() -> Steps:
        yield Sleep(60)
        raise ValueError("so")

    def main() -> Steps:
        task = yield Spawn(child(), name="child")
        yield Put("key", object())
        yield Add(1, 2)
        yield Blocking(print)
        try:
            yield Wait(task)
        except ValueError:
            return 1

    scheduler = Scheduler(main())
    scheduler.answer(Add, 3)
    scheduler.answer(Blocking)
    scheduler.finish()
    return scheduler.trace()


def test_a_trace_is_readable_and_the_same_each_time() -> None:
    first, second = traced(), traced()
    assert first == second
    told = "\n".join(first)
    line = traced.__code__.co_firstlineno
    assert first[0] == f"0.000000000 task 1 spawned at test_testing.py:{line + 5}"
    assert f"0.000000000 task 2 call 2 sleep(60s) at test_testing.py:{line + 2}" in first
    assert f'task 1 call 3 put("key", <object>) at test_testing.py:{line + 7}' in told
    assert "60.000000000 task 2 failed TFY0001 ValueError: so" in first
    assert "0x" not in told


def test_several_runs_are_stepped_together_and_told_apart() -> None:
    def main(n: int) -> Steps:
        yield Sleep(n)
        return n

    scheduler = Scheduler(main(1))
    other = scheduler.start(main(2))
    with pytest.raises(tiffany.errors.BadArgumentError, match="has 2 runs; say which one"):
        scheduler.finish()
    assert scheduler.finish(other) == 2
    assert {line[:6] for line in scheduler.trace()} == {"run 1 ", "run 2 "}
    with pytest.raises(tiffany.TiffanyError, match="was finished before"):
        scheduler.finish(other)


def test_answers_by_class_by_function_and_made_of_the_call() -> None:
    def main() -> Steps:
        page = yield Blocking(urllib.request.urlopen, "http://example.org")
        other = yield Blocking(time.sleep, 3600)
        thread = yield InThread(time.sleep, 3600)
        added = yield Add(1, 2)
        yield Sleep(5)
        return page, other, thread, added, (yield Now())

    scheduler = Scheduler(main())
    scheduler.answer(Blocking, "anything")
    scheduler.answer(
        lambda call: isinstance(call, Blocking) and call.function is urllib.request.urlopen,
        "a page",
    )
    scheduler.answer(InThread, "slept")
    scheduler.answer_with(Add, lambda call: call.a + call.b)
    scheduler.answer(Sleep)
    assert scheduler.finish() == ("a page", "anything", "slept", 3, 0.0)


def test_an_answer_may_be_an_exception() -> None:
    def main() -> Steps:
        try:
            yield Blocking(print)
        except OSError as error:
            return str(error)

    scheduler = Scheduler(main())
    scheduler.answer(Blocking, error=OSError("the disk is full"))
    assert scheduler.finish() == "the disk is full"


def test_an_answer_may_be_used_up() -> None:
    def main() -> Steps:
        answers = []
        for _ in range(4):
            answers.append((yield Blocking(int, "7")))
        return answers

    scheduler = Scheduler(main())
    scheduler.answer(Blocking, 1, times=2)
    scheduler.answer(Blocking, 2, times=1)
    assert scheduler.finish() == [2, 1, 1, 7]


def test_a_coroutine_that_is_answered_for_is_not_run() -> None:
    begun = []

    async def fetch() -> str:
        begun.append(True)
        await asyncio.sleep(60)
        return "really"

    async def main() -> str:
        return await Aio(fetch())

    scheduler = Scheduler(main())
    scheduler.answer(Aio, "fetched")
    assert scheduler.finish() == "fetched"
    assert begun == []


def test_handlers_of_the_program_come_first() -> None:
    def handler(call: SystemCall[Any], tid: int) -> object:
        return tiffany.calls.Answer("the program's") if isinstance(call, Add) else None

    def main() -> Steps:
        return (yield Add(1, 2))

    scheduler = Scheduler(main(), handlers=[handler])
    scheduler.answer(Add, "the test's")
    assert scheduler.finish() == "the program's"


def test_what_picks_no_calls_is_refused() -> None:
    scheduler = Scheduler()
    with pytest.raises(tiffany.errors.BadArgumentError, match="`int` is not a class of calls"):
        scheduler.answer(int, 3)
    with pytest.raises(tiffany.errors.BadArgumentError, match="`str` picks no calls"):
        scheduler.answer("sleep", 3)  # type: ignore[arg-type]


def test_settings_are_those_of_run() -> None:
    def main() -> Steps:
        return (yield tiffany.calls.Ask("name"))

    assert Scheduler(main(), env={"name": "value"}).finish() == "value"
    program = main()
    with pytest.raises(TypeError, match="speed"):
        Scheduler(program, speed=3)  # type: ignore[call-arg]
    program.close()


def test_a_deadlock_is_told_when_nobody_can_go_on() -> None:
    def main() -> Steps:
        promise = yield CreatePromise()
        yield Wait(promise.future)

    scheduler = Scheduler(main())
    scheduler.run_until_idle()
    with pytest.raises(tiffany.errors.DeadlockError):
        scheduler.finish()


def test_external_promises_are_settled_between_steps() -> None:
    made = []

    def main() -> Steps:
        promise = yield CreateExternalPromise()
        made.append(promise)
        return (yield Wait(promise.future))

    scheduler = Scheduler(main())
    scheduler.run_until_idle()
    assert tiffany.complete_by_uuid(made[0].uuid, "settled")
    scheduler.run_until_idle()
    assert scheduler.finish() == "settled"


def test_what_ends_the_program_ends_the_step() -> None:
    def main() -> Steps:
        yield
        raise SystemExit(3)

    scheduler = Scheduler(main())
    with pytest.raises(SystemExit):
        scheduler.run_until_idle()


def test_a_closed_scheduler_has_closed_its_tasks() -> None:
    closed = []

    def main() -> Steps:
        try:
            yield Sleep(60)
        finally:
            closed.append(True)

    with Scheduler(main()) as scheduler:
        scheduler.run_until_idle()
    assert closed == [True]
    scheduler.close()
    with pytest.raises(tiffany.errors.GoneError, match="this scheduler is closed"):
        scheduler.step()


def test_a_task_cannot_step_its_own_scheduler() -> None:
    def main() -> Steps:
        yield Yield()
        with pytest.raises(tiffany.errors.NestedRuntimeError):
            scheduler.step()
        with pytest.raises(tiffany.errors.NestedRuntimeError):
            scheduler.close()
        return "refused"

    scheduler = Scheduler(main())
    assert scheduler.finish() == "refused"
