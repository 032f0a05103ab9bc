"""Functions on threads and in processes as calls."""

from __future__ import annotations

import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany._aio.processes import Processes
from tiffany.calls import Cancel, Gather, GatherSettled, InProcess, InThread, Sleep, Spawn

Steps = Generator[Any, Any, Any]


def one(call: tiffany.calls.SystemCall[Any]) -> Steps:
    return (yield call)


def shout(text: str, *, times: int = 1) -> tuple[str, str]:
    return text.upper() * times, threading.current_thread().name


def test_a_function_runs_on_a_thread_of_a_pool_for_all() -> None:
    value, thread = tiffany.run(one(InThread(shout, "a", times=2)))
    assert value == "AA"
    assert thread.startswith("tiffany-thread")
    assert tiffany.run(one(InThread(None, shout, "b")))[0] == "B"


def test_or_of_one_s_own_executor() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as mine:
        assert tiffany.run(one(InThread(mine, shout, "a"))) == ("A", "mine_0")


def test_many_threads_work_at_once() -> None:
    barrier = threading.Barrier(4, timeout=30)

    def main(mine: Executor) -> Steps:
        tasks = []
        for _ in range(4):
            tasks.append((yield Spawn(one(InThread(mine, barrier.wait)))))
        return sorted((yield Gather(tasks)))

    with ThreadPoolExecutor(4) as mine:
        assert tiffany.run(main(mine)) == [0, 1, 2, 3]


def test_a_thread_has_a_copy_of_the_task_s_context() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    def looks() -> str:
        seen = who.get()
        who.set("changed")
        return seen

    def main() -> Steps:
        who.set("me")
        return (yield InThread(looks)), who.get()

    assert tiffany.run(main()) == ("me", "me")


def test_a_function_runs_in_a_process() -> None:
    assert tiffany.run(one(InProcess(pow, 2, 10))) == 1024
    assert tiffany.run(one(InProcess(os.getpid))) != os.getpid()


def test_or_in_one_of_one_s_own_executor() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as mine:
        assert tiffany.run(one(InProcess(mine, divmod, 7, 2))) == (3, 1)


def test_exceptions_come_back_with_their_remote_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        tiffany.run(one(InProcess(divmod, 1, 0)))
    text = "".join(traceback.format_exception(caught.value))
    assert "_RemoteTraceback" in text
    assert "_process_worker" in text

    def fails() -> None:
        raise LookupError("here")

    with pytest.raises(LookupError) as on_thread:
        tiffany.run(one(InThread(fails)))
    assert on_thread.traceback[-1].name == "fails"


def test_what_cannot_be_pickled_is_an_exception_of_the_task() -> None:
    with pytest.raises(Exception, match="pickle"):
        tiffany.run(one(InProcess(lambda: None)))


def test_a_process_that_dies_is_an_exception_and_the_next_call_has_another_one() -> None:
    def main() -> Steps:
        with pytest.raises(BrokenProcessPool):
            yield InProcess(os._exit, 3)
        return (yield InProcess(pow, 2, 3))

    assert tiffany.run(main()) == 8


def nothing_or_death(number: int) -> int:
    if number % 3 == 0:
        os._exit(3)
    return number


def test_a_process_that_dies_takes_only_its_own_call_with_it() -> None:
    def main(mine: Executor) -> Steps:
        tasks = []
        for number in range(12):
            tasks.append((yield Spawn(one(InProcess(mine, nothing_or_death, number)))))
        return (yield GatherSettled(tasks))

    with Processes(2) as mine:
        settled = tiffany.run(main(mine))
    died = [number for number, each in enumerate(settled) if isinstance(each, tiffany.Err)]
    assert died == [0, 3, 6, 9]
    assert all(isinstance(settled[number].error, BrokenProcessPool) for number in died)


def test_a_process_that_dies_with_nothing_to_do_is_replaced() -> None:
    with Processes(1) as mine:
        first = mine.submit(os.getpid).result()
        os.kill(first, signal.SIGKILL)
        for _ in range(100):
            try:
                second = mine.submit(os.getpid).result()
                break
            except BrokenProcessPool:  # It was not known yet.
                time.sleep(0.01)
        assert second != first


PROCESSES = """
import os, sys, time
import tiffany
from tiffany.calls import GatherSettled, InProcess, Spawn

def call(*given):
    return (yield InProcess(*given))

def main(wait):
    assert (yield InProcess(pow, 2, 3)) == 8
    tasks = [(yield Spawn(call(os._exit, 3)))]
    time.sleep(wait)
    tasks.append((yield Spawn(call(pow, 2, 3))))
    yield GatherSettled(tasks)

if __name__ == "__main__":
    tiffany.run(main(float(sys.argv[1])))
"""


@pytest.mark.parametrize("wait", [0.0003, 0.0015, 0.0019, 0.0029])
def test_a_program_whose_process_died_while_another_started_comes_to_its_end(
    tmp_path: Path, wait: float
) -> None:
    file = tmp_path / "processes.py"
    file.write_text(PROCESSES)
    ended = subprocess.run([sys.executable, file, str(wait)], timeout=60, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_what_has_not_begun_is_taken_back_when_its_task_is_cancelled() -> None:
    begun: list[str] = []
    go = threading.Event()

    def work(name: str) -> None:
        begun.append(name)
        go.wait(30)

    def main(mine: Executor) -> Steps:
        first = yield Spawn(one(InThread(mine, work, "first")))
        second = yield Spawn(one(InThread(mine, work, "second")))
        while not begun:
            yield Sleep(0.001)
        yield Cancel(second)
        [settled] = yield GatherSettled(second)
        go.set()
        yield tiffany.calls.Wait(first)
        return settled.error

    with ThreadPoolExecutor(1) as mine:
        assert isinstance(tiffany.run(main(mine)), tiffany.errors.TaskCancelledError)
    assert begun == ["first"]


def test_what_has_begun_goes_on_but_nobody_waits_for_it() -> None:
    go, ended = threading.Event(), threading.Event()
    begun = threading.Event()

    def work() -> None:
        begun.set()
        go.wait(30)
        ended.set()

    def main(mine: Executor) -> Steps:
        task = yield Spawn(one(InThread(mine, work)))
        while not begun.is_set():
            yield Sleep(0.001)
        yield Cancel(task)
        yield GatherSettled(task)
        assert not ended.is_set()
        go.set()

    with ThreadPoolExecutor(1) as mine:
        tiffany.run(main(mine))
    assert ended.is_set()


class AtOnce(Executor):
    """An executor that does it here and now."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def test_any_executor_will_do() -> None:
    assert tiffany.run(one(InThread(AtOnce(), sum, [1, 2]))) == 3
    assert tiffany.run(one(InProcess(AtOnce(), sum, [1, 2]))) == 3


def test_one_that_is_shut_down_is_an_exception_of_the_task() -> None:
    mine = ThreadPoolExecutor(1)
    mine.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        tiffany.run(one(InThread(mine, time.sleep, 0)))


async def coroutine() -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "lacks the function"),
        ((None,), "lacks the function"),
        ((3,), "`int` cannot be called"),
        ((coroutine,), "pass the coroutine that it returns to `Aio`"),
    ],
)
@pytest.mark.parametrize("call", [InThread, InProcess])
def test_bad_arguments_are_refused_at_once(call: Any, given: tuple[Any, ...], said: str) -> None:
    with pytest.raises(tiffany.errors.BadArgumentError, match=said):
        call(*given)


def test_processes_are_no_threads() -> None:
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as mine,
        pytest.raises(tiffany.errors.BadArgumentError, match="use `InProcess`"),
    ):
        InThread(mine, print)


def test_calls_show_what_they_were_given() -> None:
    call = InThread(shout, "a", times=2)
    assert (call.executor, call.function, call.args, call.kwargs) == (
        None,
        shout,
        ("a",),
        {"times": 2},
    )


def test_a_call_can_be_made_again() -> None:
    call = InThread(shout, "a")

    def main() -> Steps:
        first = yield call
        second = yield call
        return first[0], second[0]

    assert tiffany.run(main()) == ("A", "A")
