"""How things end: the main loop, tasks that fail, tasks that are killed. Here the original had bugs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import tiffany
from pyos.kit import Pause, Program, Quiet, Run, said_by
from tiffany.errors import (
    BadArgumentError,
    BadDescriptorError,
    DeadlockError,
    NestedRuntimeError,
    NoPyosSchedulerError,
    TiffanyError,
)
from tiffany.pyos import (
    GetTid,
    KillTask,
    NewTask,
    ReadWait,
    Scheduler,
    SystemCall,
    Task,
    WaitTask,
    WriteWait,
)


def test_the_main_loop_returns_when_nothing_is_left() -> None:
    sched = Scheduler()
    began = time.monotonic()
    sched.mainloop()
    assert time.monotonic() - began < 1


def test_the_main_loop_runs_again(run: Run) -> None:
    said: list[Any] = []

    def say(text: str) -> Program:
        said.append((text, (yield GetTid())))

    sched = run(say("one"))
    run(say("two"), say("three"))
    first = said[0][1]
    assert said == [("one", first), ("two", first + 1), ("three", first + 2)]
    assert sched.over == [first, first + 1, first + 2]


def test_a_waiting_loop_does_not_spin(run: Run) -> None:
    reader, writer = os.pipe()

    def wait() -> Program:
        yield ReadWait(reader)
        os.read(reader, 1)

    timer = threading.Timer(0.5, os.write, (writer, b"x"))
    timer.start()
    began = time.process_time()
    run(wait())
    assert time.process_time() - began < 0.3
    timer.join()


def test_a_failed_task_is_shown_and_the_others_go_on() -> None:
    done = said_by(
        """
        def inner():
            yield
            raise ValueError("broken")
        def fails():
            yield GetTid()
            yield from inner()
        def works():
            for n in range(4):
                yield
            print("worked")
        def waits(tid):
            print("waited:", (yield WaitTask(tid)))
        sched = Scheduler()
        tid = sched.new(fails())
        sched.new(works())
        sched.new(waits(tid))
        sched.mainloop()
        print("over")
        """
    )
    assert done.stdout == (
        "Task 1 terminated\nwaited: True\nTask 3 terminated\nworked\nTask 2 terminated\nover\n"
    )
    shown = done.stderr.splitlines()
    assert shown[:2] == ["Task 1 failed:", "Traceback (most recent call last):"]
    assert shown[-1] == "ValueError: broken"
    assert sum("in fails" in line or "in inner" in line for line in shown) == 2
    # Once, and not again at the end of the run.
    assert done.stderr.count("broken") == 1
    assert done.returncode == 0


def test_an_exception_reaches_the_generator_that_called(run: Run) -> None:
    caught: list[Any] = []

    def innermost() -> Program:
        yield GetTid()
        raise KeyError("deep")

    def inner() -> Program:
        yield innermost()

    def main() -> Program:
        try:
            yield inner()
        except KeyError as error:
            caught.append(error)
        yield

    assert run(main()).failures == []
    names = []
    traceback = caught[0].__traceback__
    while traceback is not None:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    assert names == ["main", "inner", "innermost"]


def test_a_task_that_fails_again_and_again_lets_the_others_run(run: Run) -> None:
    class Fail(SystemCall):
        def handle(self) -> None:
            raise ValueError

    tries: list[int] = []

    def stubborn() -> Program:
        while len(tries) < 1000:
            try:
                yield Fail()
            except ValueError:
                tries.append(1)

    def main(tid: int) -> Program:
        yield
        yield KillTask(tid)

    tid = Task.taskid + 1
    assert run(stubborn(), main(tid)).over == [tid, tid + 1]
    assert len(tries) < 5


def test_a_task_that_waits_is_killed() -> None:
    reader, _writer = os.pipe()
    ended: list[Any] = []

    def waits(what: Callable[[], SystemCall]) -> Program:
        try:
            yield what()
        finally:
            ended.append(what)

    def pauses() -> Program:
        yield Pause()

    def main(*victims: int) -> Program:
        yield
        yield
        for victim in victims:
            assert (yield KillTask(victim)) is True
        assert (yield KillTask(victims[0])) is False

    sched = Scheduler()
    pausing = Task.taskid + 1
    calls: list[Callable[[], SystemCall]] = [
        Pause,
        lambda: ReadWait(reader),
        lambda: WaitTask(pausing),
    ]
    tids = [sched.new(pauses()), *(sched.new(waits(call)) for call in calls)]
    sched.new(main(*reversed(tids)))
    sched.mainloop()
    assert ended == calls[::-1]
    assert (dict(sched.read_waiting), sched.exit_waiting, sched.taskmap) == ({}, {}, {})


def test_kill_unwinds_all_generators_innermost_first(run: Run) -> None:
    closed: list[Any] = []

    def nested(depth: int) -> Program:
        try:
            if depth:
                yield nested(depth - 1)
            else:
                yield Pause()
        except GeneratorExit:
            closed.append(depth)
            # One that swallows it ends, but does not save its caller.
            if depth != 1:
                raise
        closed.append(-depth)

    def main(victim: int) -> Program:
        yield
        yield KillTask(victim)

    tid = Task.taskid + 1
    sched = run(nested(3), main(tid))
    assert closed == [0, 1, -1, 2, 3]
    assert sched.over == [tid, tid + 1]
    assert sched.failures == []


def test_cleanup_may_make_calls(run: Run) -> None:
    said: list[Any] = []

    def helper() -> Program:
        said.append((yield GetTid()))
        yield "done"

    def victim() -> Program:
        try:
            yield Pause()
        finally:
            said.append((yield helper()))

    def outer() -> Program:
        try:
            yield victim()
        finally:
            said.append("outer")

    def main(tid: int) -> Program:
        yield
        yield KillTask(tid)
        said.append((yield WaitTask(tid)))

    tid = Task.taskid + 1
    run(outer(), main(tid))
    assert said == [tid, "done", "outer", True]


def test_cleanup_that_waits_is_woken(run: Run) -> None:
    said: list[Any] = []

    class Free(SystemCall):
        def handle(self) -> None:
            victim = self.sched.taskmap[tid]
            victim.sendval = "freed"
            self.sched.schedule(victim)
            self.sched.schedule(self.task)

    def victim() -> Program:
        try:
            yield Pause()
        finally:
            said.append((yield Pause()))

    def main() -> Program:
        yield
        yield KillTask(tid)
        yield
        yield
        yield Free()

    tid = Task.taskid + 1
    run(victim(), main())
    assert said == ["freed"]


def test_a_task_that_ignores_its_kill_fails(run: Run) -> None:
    def stubborn() -> Program:
        try:
            yield
            yield
        except GeneratorExit:
            yield

    def main(tid: int) -> Program:
        yield
        yield KillTask(tid)

    tid = Task.taskid + 1
    sched = run(stubborn(), main(tid))
    [(failed, error)] = sched.failures
    assert (failed, str(error)) == (tid, "generator ignored GeneratorExit")


def test_a_second_kill_ends_a_cleanup_that_does_not(run: Run) -> None:
    def stubborn() -> Program:
        try:
            yield Pause()
        finally:
            yield Pause()

    def main(tid: int) -> Program:
        yield
        yield KillTask(tid)
        yield
        assert (yield KillTask(tid)) is True
        yield
        assert (yield KillTask(tid)) is False

    tid = Task.taskid + 1
    sched = run(stubborn(), main(tid))
    assert (sched.over, sched.failures) == ([tid, tid + 1], [])


def test_a_task_kills_itself(run: Run) -> None:
    said: list[Any] = []

    def main() -> Program:
        tid = yield GetTid()
        try:
            yield KillTask(tid)
            said.append("went on")
        finally:
            said.append("cleaned up")

    run(main())
    assert said == ["cleaned up"]


def test_a_task_is_killed_before_it_begins(run: Run) -> None:
    said: list[Any] = []

    def main(victim: int) -> Program:
        assert (yield KillTask(victim)) is True
        yield
        child = yield NewTask(never())
        assert (yield KillTask(child)) is True

    def never() -> Program:
        said.append("began")
        yield

    # The number of a task that was started before is known to all.
    tid = Task.taskid + 1
    sched = run(main(tid + 1), never())
    assert (said, sorted(sched.over)) == (["began"], [tid, tid + 1, tid + 2])


def test_a_task_ends_another_by_exit(run: Run) -> None:
    said: list[Any] = []

    class Leave(SystemCall):
        def handle(self) -> None:
            self.sched.exit(self.task)

    def leaves() -> Program:
        try:
            yield Leave()
            said.append("went on")
        finally:
            said.append("left")

    tid = Task.taskid + 1
    sched = run(leaves())
    assert (said, sched.over) == (["left"], [tid])


def test_tasks_that_nothing_can_wake_are_a_deadlock(sched: Quiet) -> None:
    closed: list[Any] = []

    def pauses() -> Program:
        try:
            yield Pause()
        finally:
            closed.append("pauses")

    def waits(tid: int) -> Program:
        yield WaitTask(tid)

    tid = sched.new(pauses())
    sched.new(waits(tid))
    with pytest.raises(DeadlockError) as caught:
        sched.mainloop()
    text = str(caught.value)
    assert "other code to schedule it at " in text
    assert "test_end.py" in text
    assert closed == ["pauses"]
    assert sorted(sched.over) == [tid, tid + 1]
    assert (sched.taskmap, sched.exit_waiting) == ({}, {})


def test_tasks_that_wait_for_each_other_are_a_cycle(sched: Quiet) -> None:
    def waits(tid: int) -> Program:
        yield
        yield WaitTask(tid)

    first = Task.taskid + 1
    sched.new(waits(first + 1))
    sched.new(waits(first))
    with pytest.raises(DeadlockError, match="cycle: task 1 → 2 → 1"):
        sched.mainloop()


def test_a_task_does_not_wait_for_itself(run: Run) -> None:
    def main() -> Program:
        tid = yield GetTid()
        with pytest.raises(TiffanyError) as caught:
            yield WaitTask(tid)
        assert caught.value.code == "TFY0005"

    assert run(main()).failures == []


def test_another_thread_schedules_a_task(run: Run) -> None:
    class OnThread(SystemCall):
        def __init__(self, work: Callable[[], Any]) -> None:
            self.work = work

        def handle(self) -> None:
            threading.Thread(target=self.do).start()

        def do(self) -> None:
            self.task.sendval = self.work()
            self.sched.schedule(self.task)

    def slow() -> str:
        time.sleep(0.2)
        return "slept"

    said: list[Any] = []

    def main(n: int) -> Program:
        said.append((n, (yield OnThread(slow))))

    began = time.monotonic()
    run(*(main(n) for n in range(5)))
    assert sorted(said) == [(n, "slept") for n in range(5)]
    assert time.monotonic() - began < 0.9


def test_another_thread_starts_a_task(sched: Quiet) -> None:
    reader, writer = os.pipe()
    said: list[Any] = []

    def child() -> Program:
        yield GetTid()
        os.write(writer, b"by the child")

    def main() -> Program:
        yield ReadWait(reader)
        said.append(os.read(reader, 100))

    sched.new(main())
    start = threading.Timer(0.1, sched.new, (child(),))
    late = threading.Timer(5, os.write, (writer, b"too late"))
    start.start()
    late.start()
    sched.mainloop()
    late.cancel()
    assert said == [b"by the child"]
    assert len(sched.over) == 2


def test_a_thread_that_ends_leaves_a_deadlock(sched: Quiet) -> None:
    class Forgotten(SystemCall):
        def handle(self) -> None:
            threading.Timer(0.1, lambda: None).start()

    def main() -> Program:
        yield Forgotten()

    sched.new(main())
    with pytest.raises(DeadlockError):
        sched.mainloop()


def test_ctrl_c_leaves_the_loop_and_it_can_go_on(sched: Quiet) -> None:
    reader, writer = os.pipe()
    said: list[Any] = []

    def waits() -> Program:
        yield ReadWait(reader)
        said.append(os.read(reader, 10))

    def sleeps() -> Program:
        yield tiffany.calls.Sleep(0.4)
        said.append("slept")

    def pauses() -> Program:
        said.append((yield Pause()))

    tids = [sched.new(waits()), sched.new(sleeps()), sched.new(pauses())]
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sched.mainloop()
    timer.join()
    assert (sched.over, said, list(sched.taskmap), list(sched.read_waiting)) == (
        [],
        [],
        tids,
        [reader],
    )
    os.write(writer, b"later")
    paused = sched.taskmap[tids[2]]
    paused.sendval = "scheduled"
    sched.schedule(paused)
    sched.mainloop()
    assert said == ["scheduled", b"later", "slept"]
    assert sorted(sched.over) == tids


def test_sys_exit_in_a_task_leaves_the_loop(sched: Quiet) -> None:
    def leaves() -> Program:
        yield
        sys.exit(3)

    def forever() -> Program:
        while True:
            yield

    leaving = sched.new(leaves())
    sched.new(forever())
    with pytest.raises(SystemExit, match="3"):
        sched.mainloop()
    assert (sched.over, sched.failures) == ([leaving], [])


def test_a_bad_descriptor_is_an_error_at_the_yield(run: Run) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    codes: list[Any] = []

    def main(call: SystemCall) -> Program:
        try:
            yield call
        except BadDescriptorError as error:
            codes.append(error.code)

    run(main(ReadWait(reader)), main(WriteWait(-1)))
    assert codes == ["TFY0011", "TFY0011"]


@pytest.mark.parametrize("target", [42, None, lambda: None])
def test_what_is_no_task_is_an_error_where_it_is_started(run: Run, target: Any) -> None:
    def main() -> Program:
        with pytest.raises(BadArgumentError, match=r"is not a task.*TFY0032"):
            yield NewTask(target)

    with pytest.raises(BadArgumentError):
        Scheduler().new(target)
    assert run(main()).failures == []


def test_the_main_loop_is_not_nested(run: Run, sched: Quiet) -> None:
    def main(other: Scheduler) -> Program:
        with pytest.raises(NestedRuntimeError):
            other.mainloop()
        yield

    other = Quiet()
    other.new(iter_nothing())
    assert run(main(sched), main(other)).failures == []

    def native() -> Program:
        with pytest.raises(NestedRuntimeError):
            other.mainloop()
        yield

    tiffany.run(native())
    other.mainloop()


def iter_nothing() -> Program:
    yield


def test_a_call_of_pyos_is_for_tasks_of_pyos() -> None:
    def native() -> Program:
        yield GetTid()

    with pytest.raises(NoPyosSchedulerError, match=r"`GetTid`.*TFY0057"):
        tiffany.run(native())


def test_deep_calls(run: Run) -> None:
    said: list[Any] = []

    def deep(n: int) -> Program:
        if n == 0:
            yield GetTid()
            raise ValueError("from below")
        yield (yield deep(n - 1))

    def main() -> Program:
        try:
            yield deep(100_000)
        except ValueError as error:
            said.append(str(error))

    assert run(main()).failures == []
    assert said == ["from below"]
