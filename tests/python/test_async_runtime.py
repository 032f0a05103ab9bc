"""`AsyncRuntime`: a durable runtime that an asyncio service uses, on a thread of its own."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tiffany
import uvloop
from durable_kit import Ledger, finish, wait_for
from tiffany import AsyncRuntime, approve, receive_message, sleep, step, workflow
from tiffany.calls import create_external_promise
from tiffany.durable import Activity, AsyncRun, Run, on_question
from tiffany.errors import (
    BadArgumentError,
    GoneError,
    LogInUseError,
    NoSuchQuestionError,
    NoSuchRunError,
    NotAllowedError,
    NotStartedError,
    OtherLoopError,
    OtherRunError,
    RunHeldError,
    TaskCancelledError,
    UnreachableError,
    UnregisteredError,
)

Loop = Callable[[Coroutine[Any, Any, Any]], Any]


def on_uvloop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


@pytest.fixture(params=[asyncio.run, on_uvloop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    run: Loop = request.param
    return run


class OutOfStock(Exception):
    def __init__(self, item: str, left: int) -> None:
        super().__init__(item, left)
        self.left = left


@step
def price(item: str) -> int:
    if item == "nothing":
        raise OutOfStock(item, 0)
    return len(item)


@workflow(name="aio order")
async def order(item: str, count: int = 1) -> int:
    return await price(item) * count


@workflow(name="aio two steps")
async def two_steps(item: str) -> int:
    return await price("x" * await price(item))


@workflow(name="aio other")
async def other(item: str) -> str:
    return item


@workflow(name="aio waiting")
async def waiting() -> Any:
    on_question("seen", lambda: "nothing yet")
    return await receive_message("go")


@workflow(name="aio many values")
async def values() -> list[int]:
    return [1, 2]


@workflow(name="aio spinning")
async def spinning(seconds: float) -> str:
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        pass
    return "spun"


@workflow(name="aio sleeping")
async def sleeping(seconds: float) -> str:
    await sleep(seconds)
    return "slept"


@step(retries=0)
def failing_once(path: str) -> str:
    raise OutOfStock(path, 3)


@workflow(name="aio failing")
async def failing() -> str:
    return await failing_once("tea")


@step
async def slow(ledger: str, seconds: float) -> str:
    Ledger(ledger).write("begun")
    await asyncio.sleep(seconds)
    Ledger(ledger).write("ended")
    return "slow"


@workflow(name="aio slow")
async def slowly(ledger: str, seconds: float) -> str:
    try:
        first = await slow(ledger, seconds)
        return first + (await slow(ledger, 0.0))
    finally:
        Ledger(ledger).write("unwound")


@workflow(name="aio asks")
async def asks() -> str:
    approval = await approve("may it?", payload={"cents": 5})
    return f"{approval.choice} by {approval.by}"


@workflow(name="aio promises")
async def promises() -> Any:
    promise = await create_external_promise()
    on_question("promise", lambda: str(promise.uuid))
    return await promise.future


def test_runs_are_started_and_waited_for(loop: Loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(order, "tea", 2, id="order-1")
            assert isinstance(run, AsyncRun)
            assert isinstance(run, Run)
            assert run.id == "order-1"
            assert await run.result() == 6
            assert await run.result() == 6
            assert await run.state() == "completed"
            from_program = await runtime.submit(order("milk", count=3), id="order-2")
            by_name = await runtime.submit("aio order", item="milk", id="order-3")
            assert [await from_program.result(), await by_name.result()] == [12, 4]
            # Its thread is not the event loop's.
            names = {thread.name for thread in threading.enumerate()}
            assert "tiffany-runtime" in names
        assert "tiffany-runtime" not in {thread.name for thread in threading.enumerate()}

    loop(main())
    with tiffany.Runtime(wal=tmp_path) as runtime:
        assert runtime.wait("order-2") == 12


def test_each_waiter_has_a_value_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(values, id="values")
            first, second = await asyncio.gather(run.result(), run.result())
            first.append(3)
            assert second == [1, 2]
            assert await run.result() == [1, 2]

    asyncio.run(main())


def test_the_same_id_is_the_same_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(order, "tea", id="one")
            again = await runtime.submit(order, "tea", id="one")
            assert again == run
            assert await again.result() == 3
            assert await (await runtime.get("one")).result() == 3
            assert await (await runtime.get(run.uuid)).result() == 3
            assert (await runtime.get(run.uuid)).id == "one"
            with pytest.raises(OtherRunError, match="another function"):
                await runtime.submit(other, "tea", id="one")
            with pytest.raises(OtherRunError, match="another input"):
                await runtime.submit(order, "milk", id="one")
            with pytest.raises(NoSuchRunError):
                await runtime.get("two")

    asyncio.run(main())


def test_a_failed_run_raises_its_exception(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(failing, id="failing")
            for _ in range(2):
                with pytest.raises(OutOfStock) as caught:
                    await run.result()
                assert caught.value.left == 3
            assert await run.state() == "failed"
            info = await runtime.info(run)
            assert info.error is not None
            assert "OutOfStock" in info.error.message

    asyncio.run(main())
    asyncio.run(again(tmp_path))


async def again(wal: Path) -> None:
    """The same after a restart, from the log."""
    async with AsyncRuntime(wal=wal) as runtime:
        with pytest.raises(OutOfStock) as caught:
            await (await runtime.get("failing")).result()
        assert caught.value.left == 3


def test_a_waiter_that_gives_up_does_not_cancel_the_run(loop: Loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(waiting, id="waits")
            for _ in range(100):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(run.result(), 0.001)
            assert runtime._service is not None
            # However often it was given up, one request was made.
            assert len(runtime._service._waiting) == 1
            patient = asyncio.create_task(run.result())
            impatient = asyncio.create_task(run.result())
            await asyncio.sleep(0.01)
            impatient.cancel()
            await asyncio.sleep(0.01)
            assert await run.state() == "live"
            assert await run.query("seen") == "nothing yet"
            await run.send("go", {"some": "value"})
            assert await patient == {"some": "value"}
            assert not runtime._service._outcomes
            assert not runtime._service._waiting

    loop(main())


def test_a_run_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(waiting, id="waits")
            result = asyncio.create_task(run.result())
            await run.cancel()
            with pytest.raises(TaskCancelledError):
                await result
            assert await run.state() == "cancelled"

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::tiffany.errors.PausedRunWarning")
def test_a_run_is_held_and_released(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(waiting, id="waits")
            result = asyncio.create_task(run.result())
            await asyncio.sleep(0.01)
            await run.hold(by="ada", why="audit")
            with pytest.raises(RunHeldError, match="audit"):
                await result
            assert await run.state() == "held"
            await run.send("go", 1)
            await run.release(by="ada")
            assert await run.result() == 1

    asyncio.run(main())


async def answered(run: AsyncRun[Any], question: str) -> Any:
    """Asks until the run has come to the line that answers."""
    while True:
        try:
            return await run.query(question)
        except NoSuchQuestionError:
            await asyncio.sleep(0.001)


def test_promises_and_approvals_are_decided(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(promises, id="promises")
            promise = await answered(run, "promise")
            assert await runtime.settle(promise, 7)
            assert await run.result() == 7
            failed = await runtime.submit(promises, id="promises-2")
            assert await runtime.fail(await answered(failed, "promise"), OutOfStock("tea", 1))
            with pytest.raises(OutOfStock):
                await failed.result()
            asking = await runtime.submit(asks, id="asks")
            while not (questions := await runtime.approvals()):
                await asyncio.sleep(0.001)
            assert questions[0].payload == {"cents": 5}
            decided = await runtime.approve(questions[0].id, by="ada")
            assert decided.by == "ada"
            assert await asking.result() == f"{decided.choice} by ada"

    asyncio.run(main())


def test_runs_are_listed_by_filters(tmp_path: Path) -> None:
    async def main() -> None:
        began = datetime.now(UTC) - timedelta(seconds=1)
        async with AsyncRuntime(wal=tmp_path) as runtime:
            for n in range(5):
                await (await runtime.submit(order, "tea", n, id=f"order-{n}")).result()
            await runtime.submit(waiting, id="waits")
            page = await runtime.runs(sort="id", descending=False, limit=4)
            assert [run.id for run in page.runs] == [f"order-{n}" for n in range(4)]
            assert page.total == 6
            rest = await runtime.runs(sort="id", descending=False, limit=4, after=page.next)
            assert [run.id for run in rest.runs] == ["order-4", "waits"]
            assert rest.next is None
            live = await runtime.runs(state="live")
            assert [(run.id, run.function, run.ended) for run in live.runs] == [
                ("waits", "aio waiting", None)
            ]
            assert live.runs[0].started is not None
            assert live.runs[0].started > began
            assert (await runtime.runs(function="aio order", text="-3")).total == 1
            assert (await runtime.runs(before=began)).total == 0
            assert (await runtime.runs(since=began)).total == 6
            with pytest.raises(
                BadArgumentError, match=r"there is no state 'running' of runs .*; there are live"
            ):
                await runtime.runs(state="running")

    asyncio.run(main())


def test_a_fork_continues_with_another_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(order, "tea", 2, id="order")
            assert await run.result() == 6
            fork = await runtime.fork(run, 4, reply=10, id="dearer")
            assert fork.id == "dearer"
            assert await fork.result() == 20
            assert [one.id for one in (await runtime.runs(parent=run)).runs] == ["dearer"]

    asyncio.run(main())


def test_a_fork_that_waits_for_a_permission_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(two_steps, "tea", id="two")
            assert await run.result() == 3
            fork = await runtime.fork(run, 4, reply=10, id="ten")
            for _ in range(2):
                with pytest.raises(NotAllowedError, match="`price`"):
                    await fork.result()
            await runtime.allow(fork, "price")
            assert await fork.result() == 10

    asyncio.run(main())


@pytest.mark.alone
def test_a_spinning_task_does_not_stop_the_event_loop(tmp_path: Path) -> None:
    async def main() -> float:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(spinning, 1.0, id="spins")
            worst, done = 0.0, asyncio.ensure_future(run.result())
            while not done.done():
                began = time.perf_counter()
                await asyncio.sleep(0.001)
                worst = max(worst, time.perf_counter() - began)
            assert await done == "spun"
            return worst

    assert asyncio.run(main()) < 0.5


def test_a_blocked_event_loop_does_not_stop_the_runs(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")

    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path / "wal") as runtime:
            run = await runtime.submit(slowly, str(ledger.path), 0.1, id="slow")
            wait_for(lambda: ledger.read().count("ended") == 2)  # It blocks this loop.
            assert await run.result() == "slowslow"

    asyncio.run(main())


def test_thousands_of_waiters_cost_no_thread(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            runs = await asyncio.gather(*(runtime.submit(waiting, id=f"w-{n}") for n in range(500)))
            threads = threading.active_count()
            results = [asyncio.ensure_future(run.result()) for run in runs for _ in range(4)]
            await asyncio.sleep(0.1)
            assert threading.active_count() <= threads
            await asyncio.gather(*(run.send("go", n) for n, run in enumerate(runs)))
            assert await asyncio.gather(*results) == [n for n in range(500) for _ in range(4)]

    asyncio.run(main())


def test_shutdown_waits_for_steps_and_unwinds_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")

    async def first() -> None:
        async with AsyncRuntime(wal=tmp_path / "wal") as runtime:
            run = await runtime.submit(slowly, str(ledger.path), 0.3, id="slow")
            result = asyncio.create_task(run.result())
            await asyncio.sleep(0)
            while not ledger.read():
                await asyncio.sleep(0.001)
        # The step that was in progress has finished, and no other one was started.
        assert ledger.read() == ["begun", "ended"]
        with pytest.raises(GoneError, match="continues with the next runtime"):
            await result

    async def second() -> None:
        async with AsyncRuntime(wal=tmp_path / "wal") as runtime:
            assert await (await runtime.get("slow")).result() == "slowslow"
        assert ledger.read() == ["begun", "ended", "begun", "ended", "unwound"]

    asyncio.run(first())
    asyncio.run(second())


def test_the_grace_of_a_step_has_an_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")

    async def main() -> float:
        async with AsyncRuntime(wal=tmp_path / "wal", shutdown_grace=0.1) as runtime:
            await runtime.submit(slowly, str(ledger.path), 30.0, id="slow")
            while not ledger.read():
                await asyncio.sleep(0.001)
            began = time.monotonic()
        return time.monotonic() - began

    assert asyncio.run(main()) < 10
    assert ledger.read() == ["begun"]


def test_changes_during_the_shutdown_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")

    async def main() -> None:
        runtime = AsyncRuntime(wal=tmp_path / "wal")
        await runtime.__aenter__()
        await runtime.submit(slowly, str(ledger.path), 0.3, id="slow")
        while not ledger.read():
            await asyncio.sleep(0.001)
        ending = asyncio.create_task(runtime.__aexit__(None, None, None))
        late = runtime._service
        assert late is not None
        await asyncio.sleep(0)
        with pytest.raises(GoneError, match="is closed"):
            await runtime.submit(order, "tea", id="late")
        with pytest.raises(UnreachableError, match="ending"):
            given: Any = ("aio order", "late", '{"item":"tea"}', ([], {}, None))
            await late.ask(lambda core, n: core.submit(n, *given))
        await ending

    asyncio.run(main())


def test_a_sleep_outlives_the_service(tmp_path: Path) -> None:
    async def first() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            await runtime.submit(sleeping, 0.2, id="sleeps")

    async def second() -> str:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            return str(await (await runtime.get("sleeps")).result())

    asyncio.run(first())
    assert asyncio.run(second()) == "slept"


def test_other_threads_use_the_handle(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            handle = runtime.handle
            run = await asyncio.to_thread(lambda: handle.submit(order, "tea", id="from a thread"))
            assert await (await runtime.get(run)).result() == 3
            assert (await runtime.status()).pid == os.getpid()
            metrics = await runtime.metrics()
            assert metrics.value("tiffany_runs_started_total", kind="durable") == 1
            with runtime.activity(run, from_seq=0) as events:
                async for event in events:
                    assert isinstance(event, Activity)
                    assert event.stage == "ReceivedInstruction"
                    break

    asyncio.run(main())


# Wrong uses.


def test_it_is_used_only_while_it_is_open(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = AsyncRuntime(wal=tmp_path)
        with pytest.raises(
            NotStartedError, match=r"\[TFY0226\]; use it inside `async with runtime:`"
        ):
            await runtime.submit(order("tea"), id="early")
        assert not list(tmp_path.iterdir()), "it opens nothing before"
        async with runtime:
            run = await runtime.submit(order, "tea", id="one")
        for late in (run.result(), runtime.submit(order, "tea", id="one"), run.state()):
            with pytest.raises(GoneError, match=r"is closed \[TFY0031\]"):
                await late
        with pytest.raises(BadArgumentError, match="was opened before"):
            async with runtime:
                pass

    asyncio.run(main())
    gc.collect()


def test_it_belongs_to_one_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:

            def elsewhere() -> None:
                with pytest.raises(OtherLoopError, match=r"\[TFY0222\].*run_coroutine_threadsafe"):
                    asyncio.run(runtime.get("one"))

            await asyncio.to_thread(elsewhere)

    asyncio.run(main())


def test_one_directory_has_one_runtime(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path):
            with pytest.raises(
                LogInUseError, match=r"another runtime of this process.*AsyncRuntime"
            ):
                async with AsyncRuntime(wal=tmp_path):
                    pass
            with pytest.raises(LogInUseError, match="another runtime of this process"):
                tiffany.Runtime(wal=tmp_path)
        async with AsyncRuntime(wal=tmp_path) as runtime:
            assert (await runtime.status()).live == 0

    asyncio.run(main())


def test_a_directory_of_another_process_is_named_with_it(tmp_path: Path) -> None:
    code = "import sys, time, tiffany; r = tiffany.Runtime(wal=sys.argv[1]); print(1, flush=True); time.sleep(60)"
    owner = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        owner.stdout.readline()

        async def main() -> None:
            runtime = AsyncRuntime(wal=tmp_path)
            pattern = rf"\b{owner.pid}\b.*\[TFY0101\].*tiffany\.connect"
            with pytest.raises(LogInUseError, match=pattern):
                async with runtime:
                    pass
            with pytest.raises(GoneError):
                await runtime.get("one")

        asyncio.run(main())
    finally:
        owner.kill()
        owner.communicate()


def test_functions_that_are_not_registered_are_errors(tmp_path: Path) -> None:
    async def local(item: str) -> str:
        return item

    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            with pytest.raises(UnregisteredError, match="nobody's"):
                await runtime.submit("nobody's", id="one")
            with pytest.raises(UnregisteredError, match="decorate it with @tiffany"):
                await runtime.submit(local("tea"), id="two")
            with pytest.raises(BadArgumentError, match="generator function or an async def"):
                await runtime.submit(len, "tea", id="three")  # type: ignore[arg-type]

    asyncio.run(main())


def test_settings_are_those_of_a_runtime(tmp_path: Path) -> None:
    with pytest.raises(BadArgumentError, match="did you mean `queues`"):
        AsyncRuntime(wal=tmp_path, queue={})  # type: ignore[call-arg]
    with pytest.raises(BadArgumentError, match="has no directory for their log"):
        AsyncRuntime()
    with pytest.raises(BadArgumentError, match="`shutdown_grace` is a number of seconds"):
        AsyncRuntime(wal=tmp_path, shutdown_grace=-1)


def test_cancelled_while_it_opens_it_closes_again(tmp_path: Path) -> None:
    async def main() -> None:
        async def enter() -> None:
            async with AsyncRuntime(wal=tmp_path):
                await asyncio.sleep(60)

        for patience in (0.0, 0.0001, 0.01):
            task = asyncio.create_task(enter())
            await asyncio.sleep(patience)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with AsyncRuntime(wal=tmp_path) as runtime:
            assert await (await runtime.submit(order, "tea", id="one")).result() == 3

    asyncio.run(main())


def test_a_task_that_ends_the_process_ends_the_runtime(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            run = await runtime.submit(exits, id="exits")
            with pytest.raises(GoneError):
                await run.result()
            while not runtime._service or not runtime._service._ended.done():
                await asyncio.sleep(0.001)
            with pytest.raises(GoneError, match=r"ended with SystemExit\(3\)"):
                await runtime.get("exits")

    asyncio.run(main())


@workflow(name="aio exits")
async def exits() -> None:
    await sleep(0.05)
    raise SystemExit(3)


FAILS = """
    import asyncio, resource, signal, sys
    from tiffany import AsyncRuntime, receive_message, workflow

    @workflow
    async def waits():
        return await receive_message("go")

    async def told(awaitable):
        try:
            await awaitable
        except Exception as error:
            print(type(error).__name__, error.code, flush=True)

    async def main():
        async with AsyncRuntime(wal=sys.argv[1]) as runtime:
            run = await runtime.submit(waits, id="waits")
            result = asyncio.create_task(told(run.result()))
            await asyncio.sleep(0.05)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            await told(run.send("go", 1))
            await result
            await told(run.result())
            await told(runtime.submit(waits, id="more"))
            print(await run.state())

    asyncio.run(main())
"""


def test_a_failed_log_is_told_to_everyone_who_waits(tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text(textwrap.dedent(FAILS))
    command = [sys.executable, str(program), str(tmp_path / "wal")]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code, out, err = finish(process)
    assert code == 0, err
    assert "the log has failed" in err
    failed = out.splitlines()
    assert failed == ["LogFailedError TFY0039"] * 4 + ["live"]


LEFT = """
    import asyncio, sys, threading, time
    from tiffany import AsyncRuntime, sleep, step, workflow

    @step
    def blocked():
        time.sleep(60)

    @workflow
    async def busy(n):
        if n == 0:
            await blocked()
        while True:
            await sleep(0.0001)

    async def main():
        runtime = AsyncRuntime(wal=sys.argv[1])
        await runtime.__aenter__()
        for n in range(1, 4):
            await runtime.submit(busy, n, id=f"busy-{n}")
        await asyncio.sleep(0.2)

    asyncio.run(main())
    print("left", flush=True)
"""


def test_a_process_that_leaves_it_open_ends_quietly(tmp_path: Path) -> None:
    program = tmp_path / "left.py"
    program.write_text(textwrap.dedent(LEFT))
    for _ in range(3):
        command = [sys.executable, str(program), str(tmp_path / "wal")]
        began = time.monotonic()
        process = subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        code, out, err = finish(process)
        assert (code, out, err) == (0, "left\n", "")
        assert time.monotonic() - began < 10


IMPATIENT = """
    import asyncio, sys, time
    from tiffany import AsyncRuntime, step, workflow

    @step
    async def blocked():
        print("begun", flush=True)
        await asyncio.sleep(60)

    @workflow
    async def waits():
        await blocked()

    async def main():
        async def serve():
            async with AsyncRuntime(wal=sys.argv[1], shutdown_grace=60) as runtime:
                await runtime.submit(waits, id="waits")
                await asyncio.sleep(0.3)

        serving = asyncio.create_task(serve())
        await asyncio.sleep(0.6)
        serving.cancel()

    asyncio.run(main())
    print("left", flush=True)
"""


def test_a_shutdown_that_is_cancelled_is_not_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "impatient.py"
    program.write_text(textwrap.dedent(IMPATIENT))
    command = [sys.executable, str(program), str(tmp_path / "wal")]
    began = time.monotonic()
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    code, out, err = finish(process)
    assert (code, out, err) == (0, "begun\nleft\n", "")
    assert time.monotonic() - began < 15


def test_a_forked_child_cannot_use_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            child = os.fork()
            if child == 0:
                try:
                    assert runtime._service is not None
                    runtime._service.core.status(99)
                except tiffany.TiffanyError as error:
                    os._exit(7 if error.code == "TFY0047" else 8)
                os._exit(9)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 7
            assert (await runtime.status()).live == 0

    asyncio.run(main())
