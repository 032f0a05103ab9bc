"""Programs inside a loop of asyncio."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest
import tiffany
import uvloop
from tiffany import arun
from tiffany.calls import (
    Aio,
    Blocking,
    CreateExternalPromise,
    Gather,
    Now,
    ReadWait,
    Sleep,
    Spawn,
    Wait,
)

Steps = Generator[Any, Any, Any]
Loop = Callable[[Coroutine[Any, Any, Any]], Any]


def on_uvloop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


@pytest.fixture(params=[asyncio.run, on_uvloop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    run: Loop = request.param
    return run


def test_a_program_runs_on_the_loop_s_own_thread(loop: Loop) -> None:
    def child(n: int) -> Steps:
        yield Sleep(0.001)
        return n, threading.current_thread() is threading.main_thread()

    def main() -> Steps:
        tasks = []
        for n in range(3):
            tasks.append((yield Spawn(child(n))))
        return (yield Gather(tasks))

    assert loop(arun(main())) == [(0, True), (1, True), (2, True)]


def test_its_exception_is_raised(loop: Loop) -> None:
    async def main() -> None:
        await tiffany.sleep(0)
        raise LookupError("so")

    with pytest.raises(LookupError, match="so"):
        loop(arun(main()))


def test_what_other_threads_do_wakes_it(loop: Loop) -> None:
    def main() -> Steps:
        promise = yield CreateExternalPromise()
        timer = threading.Timer(0.02, promise.complete, ("settled",))
        timer.start()
        said = yield Wait(promise.future)
        timer.join()
        return said, (yield Blocking(pow, 2, 10))

    assert loop(arun(main())) == ("settled", 1024)


def test_what_the_loop_itself_does_wakes_it(loop: Loop) -> None:
    def main() -> Steps:
        promise = yield CreateExternalPromise()
        asyncio.get_running_loop().call_later(0.02, promise.complete, "settled")
        return (yield Wait(promise.future))

    assert loop(arun(main())) == "settled"


def test_descriptors_wake_it(loop: Loop) -> None:
    ours, theirs = socket.socketpair()

    def main() -> Steps:
        asyncio.get_running_loop().call_later(0.02, theirs.send, b"hello")
        yield ReadWait(ours)
        return ours.recv(5)

    with ours, theirs:
        assert loop(arun(main())) == b"hello"


def test_a_descriptor_that_is_closed_behind_its_back_is_noticed(loop: Loop) -> None:
    read, write = os.pipe()

    def closes() -> Steps:
        yield Sleep(0.01)
        os.close(read)

    def main() -> Steps:
        yield Spawn(closes())
        yield ReadWait(read)

    with pytest.raises(tiffany.errors.BadDescriptorError):
        loop(arun(main()))
    os.close(write)


def test_aio_runs_on_the_same_loop(loop: Loop) -> None:
    async def where() -> int:
        await asyncio.sleep(0)
        return id(asyncio.get_running_loop())

    def main() -> Steps:
        return (yield Aio(where())) == id(asyncio.get_running_loop())

    assert loop(arun(main())) is True


def test_neither_starves_the_other(loop: Loop) -> None:
    longest = 0.0

    async def ticks() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest = max(longest, now - last)
            last = now

    def busy(rounds: int) -> Steps:
        for _ in range(rounds):
            yield

    async def main() -> int:
        ticker = asyncio.create_task(ticks())
        await arun(busy(200_000))
        ticker.cancel()
        return 1

    begun = time.perf_counter()
    loop(main())
    took = time.perf_counter() - begun
    assert longest < took / 4, (longest, took)


def test_a_busy_loop_does_not_keep_it_from_its_timers(loop: Loop) -> None:
    async def busy() -> None:
        while True:
            await asyncio.sleep(0)

    def main() -> Steps:
        for _ in range(20):
            yield Sleep(0.001)
        return "done"

    async def both() -> Any:
        other = asyncio.create_task(busy())
        said = await asyncio.wait_for(arun(main()), 30)
        other.cancel()
        return said

    assert loop(both()) == "done"


def test_several_at_once(loop: Loop) -> None:
    def main(n: int) -> Steps:
        yield Sleep(0.01)
        value = yield Aio(asyncio.sleep(0.01, n))
        return value, (yield Blocking(int, n))

    async def all_of_them() -> Any:
        return await asyncio.gather(*(arun(main(n)) for n in range(10)))

    assert loop(all_of_them()) == [(n, n) for n in range(10)]


def test_one_inside_another(loop: Loop) -> None:
    def inner() -> Steps:
        yield Sleep(0.001)
        return "inner"

    def outer() -> Steps:
        return (yield Aio(arun(inner())))

    assert loop(arun(outer())) == "inner"


class Cleanup:
    """A program with a child, both of which clean up with calls."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def waits(self, name: str) -> Steps:
        try:
            yield Sleep(60)
        finally:
            yield Sleep(0.005)
            self.events.append(name)

    def main(self) -> Steps:
        yield Spawn(self.waits("child"))
        yield self.waits("root")


def test_cancelled_it_cancels_the_run_and_waits_for_the_cleanup(loop: Loop) -> None:
    cleanup = Cleanup()

    async def main() -> None:
        task = asyncio.create_task(arun(cleanup.main()))
        await asyncio.sleep(0.02)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        assert task.cancelled()

    loop(main())
    assert sorted(cleanup.events) == ["child", "root"]


def test_a_timeout_of_asyncio_does_the_same(loop: Loop) -> None:
    cleanup = Cleanup()

    async def main() -> None:
        async with asyncio.timeout(0.02):
            await arun(cleanup.main())

    with pytest.raises(TimeoutError):
        loop(main())
    assert sorted(cleanup.events) == ["child", "root"]


def test_what_goes_wrong_in_the_cleanup_is_raised(loop: Loop) -> None:
    def main() -> Steps:
        try:
            yield Sleep(60)
        finally:
            raise ValueError("in its cleanup")

    async def outer() -> None:
        task = asyncio.create_task(arun(main()))
        await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(ValueError, match="in its cleanup"):
        loop(outer())


def test_cancelled_twice_it_does_not_wait_for_the_cleanup(loop: Loop) -> None:
    begun = []

    def main() -> Steps:
        try:
            yield Sleep(60)
        finally:
            begun.append(True)
            yield Sleep(60)

    async def outer() -> None:
        task = asyncio.create_task(arun(main()))
        await asyncio.sleep(0.01)
        task.cancel()
        while not begun:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 30)

    loop(outer())


def test_a_deadlock_is_found(loop: Loop) -> None:
    def main() -> Steps:
        promise = yield tiffany.calls.CreatePromise()
        yield Wait(promise.future)

    with pytest.raises(tiffany.errors.DeadlockError):
        loop(arun(main()))


def test_with_a_virtual_clock_no_time_passes(loop: Loop) -> None:
    def main() -> Steps:
        yield Sleep(24 * 3600)
        return (yield Now())

    begun = time.monotonic()
    assert loop(arun(main(), clock="virtual")) == 24 * 3600
    assert time.monotonic() - begun < 30


def test_system_exit_in_a_task_ends_it(loop: Loop) -> None:
    def main() -> Steps:
        yield Sleep(0)
        raise SystemExit(7)

    async def outer() -> int:
        try:
            await arun(main())
        except SystemExit as exit:
            assert isinstance(exit.code, int)
            return exit.code
        return 0

    assert loop(outer()) == 7


def test_what_ends_the_program_lets_the_others_clean_up(loop: Loop) -> None:
    cleanup = Cleanup()

    def main() -> Steps:
        yield Spawn(cleanup.waits("child"))
        yield Sleep(0.001)
        raise SystemExit(7)

    async def outer() -> object:
        try:
            return await arun(main())
        except SystemExit as exit:
            return exit.code

    assert loop(outer()) == 7
    assert cleanup.events == ["child"]


def test_what_is_no_program_is_refused_and_nothing_is_left(loop: Loop) -> None:
    async def outer() -> int:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(tiffany.errors.BadArgumentError):
                await arun(3)  # type: ignore[arg-type]
        return len(os.listdir("/proc/self/fd")) - before

    assert loop(outer()) == 0


def test_an_unknown_setting_is_refused(loop: Loop) -> None:
    def main() -> Steps:
        yield Sleep(0)

    program = main()
    with pytest.raises(TypeError, match="speed"):
        loop(arun(program, speed=3))  # type: ignore[call-arg]


def test_run_inside_a_task_of_it_is_an_error(loop: Loop) -> None:
    def inner() -> Steps:
        yield Sleep(0)

    def main() -> Steps:
        yield Sleep(0)
        program = inner()
        try:
            tiffany.run(program)
        except tiffany.errors.NestedRuntimeError as error:
            return error.code

    assert loop(arun(main())) == "TFY0025"


def test_ctrl_c_cleans_up() -> None:
    program = """
import asyncio, os, signal, tiffany
from tiffany.calls import Sleep
def main():
    try:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        yield Sleep(60)
    finally:
        yield Sleep(0.001)
        print("cleaned up", flush=True)
asyncio.run(tiffany.arun(main()))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "cleaned up\n"
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt")


def test_in_a_notebook() -> None:
    """IPython runs a cell with `await` on a loop of its own, as a notebook does."""
    cells = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "import tiffany\\nfrom tiffany import arun; from tiffany.calls import Sleep, Spawn, Wait",
    "def child():\\n    yield Sleep(0.001)\\n    return 6",
    "async def main():\\n    return 7 * await (await tiffany.spawn(child()))",
    "answer = await arun(main())",
    "again = await arun(main())",
    "print(answer, again)",
):
    shell.run_cell(cell).raise_error()
"""
    ended = subprocess.run(
        [sys.executable, "-c", cells], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("42 42\n")


@tiffany.step
def half(n: int) -> float:
    return n / 2


@tiffany.workflow(name="test_arun.halved")
async def halved(n: int) -> float:
    await tiffany.sleep(0.001 * (n % 3))
    return await half(n)


@tiffany.workflow(name="test_arun.never")
async def never() -> None:
    await tiffany.receive_message("never")


@tiffany.workflow(name="test_arun.fails")
async def fails() -> None:
    await tiffany.yield_now()
    raise LookupError("so")


def test_calls_on_one_directory_share_a_runtime(loop: Loop, tmp_path: Path) -> None:
    async def main() -> list[float]:
        calls = (arun(halved(n), wal=tmp_path, id=f"h-{n}") for n in range(20))
        return await asyncio.gather(*calls)

    assert loop(main()) == [n / 2 for n in range(20)]
    # The last one closed it.
    assert loop(arun(halved(3), wal=tmp_path, id="h-3")) == 1.5


def test_those_who_leave_a_shared_runtime_leave_it_to_the_others(
    loop: Loop, tmp_path: Path
) -> None:
    async def main() -> Any:
        waits = asyncio.create_task(arun(never(), wal=tmp_path, id="never"))
        fault = asyncio.create_task(arun(fails(), wal=tmp_path / ".", id="fails"))
        with pytest.raises(LookupError, match="so"):
            await fault
        assert not waits.done()
        waits.cancel()
        value = await arun(halved(1), wal=tmp_path, id="h")
        with pytest.raises(asyncio.CancelledError):
            await waits
        return value

    assert loop(main()) == 0.5
    with tiffany.Runtime(wal=tmp_path) as runtime:
        # A durable run is not cancelled with its call.
        runtime.send("never", "never", None)
        assert runtime.wait("never") is None


def test_a_shared_runtime_has_one_set_of_settings(tmp_path: Path) -> None:
    async def main() -> None:
        waits = asyncio.create_task(arun(never(), wal=tmp_path, id="never", threads=2))
        await asyncio.sleep(0)
        same = arun(halved(2), wal=tmp_path, id="h", threads=2, record="every", workflows=[halved])
        assert await same == 1
        with pytest.raises(tiffany.errors.OtherSettingsError, match=r"`threads` \[TFY0221\]"):
            await arun(halved(2), wal=tmp_path, id="other")
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        # With nobody there it may have others.
        assert await arun(halved(2), wal=tmp_path, id="other") == 1

    asyncio.run(main())


def test_a_directory_belongs_to_one_loop(tmp_path: Path) -> None:
    refused: list[BaseException] = []

    def on_another() -> None:
        try:
            asyncio.run(arun(halved(2), wal=tmp_path, id="h"))
        except BaseException as error:
            refused.append(error)

    async def main() -> None:
        waits = asyncio.create_task(arun(never(), wal=tmp_path, id="never"))
        await asyncio.sleep(0)
        thread = threading.Thread(target=on_another)
        thread.start()
        await asyncio.to_thread(thread.join)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits

    asyncio.run(main())
    assert [type(error) for error in refused] == [tiffany.errors.OtherLoopError]
    assert "TFY0222" in str(refused[0])


def test_run_does_not_block_a_running_loop(loop: Loop, tmp_path: Path) -> None:
    async def main() -> None:
        for call in (
            lambda: tiffany.run(halved(2)),
            lambda: tiffany.run(halved(2), wal=tmp_path, id="h"),
            lambda: tiffany.Runtime().run(halved(2)),
            lambda: tiffany.Runtime(wal=tmp_path).wait("h"),
            lambda: tiffany.Runtime(wal=tmp_path).query("h", "status"),
        ):
            with pytest.raises(tiffany.errors.RunningLoopError, match=r"TFY0223.*tiffany\.arun"):
                call()

    loop(main())
    assert tiffany.run(halved(2)) == 1


def test_loops_that_begin_at_once_are_told_of_each_other(tmp_path: Path) -> None:
    """Exactly one of them has the directory, and it is named as a loop, not as a process."""
    count = 8
    begin, told = threading.Barrier(count), threading.Barrier(count)
    outcomes: list[str] = []

    async def main() -> None:
        begin.wait()
        try:
            waits = asyncio.create_task(arun(never(), wal=tmp_path, id="never"))
            await asyncio.wait((waits,), timeout=0.2)
            if waits.done():
                await waits
            outcomes.append("has it")
        except tiffany.TiffanyError as error:
            outcomes.append(error.code or "")
        # Nobody leaves before all have tried.
        await asyncio.to_thread(told.wait)
        waits.cancel()
        await asyncio.wait((waits,))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["TFY0222"] * (count - 1) + ["has it"]


def test_a_second_runtime_of_this_process_is_not_told_to_stop_this_process(tmp_path: Path) -> None:
    def beside() -> None:
        tiffany.run(halved(2), wal=tmp_path, id="h")

    async def main() -> None:
        waits = asyncio.create_task(arun(never(), wal=tmp_path, id="never"))
        await asyncio.sleep(0)
        with pytest.raises(tiffany.TiffanyError) as refused:
            await asyncio.to_thread(beside)
        assert refused.value.code == "TFY0101"
        said = str(refused.value)
        assert "another runtime of this process" in said and "tiffany.arun" in said, said
        assert str(os.getpid()) not in said and "stop that process" not in said, said
        waits.cancel()
        await asyncio.wait((waits,))

    asyncio.run(main())


def test_a_loop_that_is_closed_early_says_nothing_and_loses_nothing(tmp_path: Path) -> None:
    program = f"""
import asyncio, gc, tiffany

@tiffany.workflow(name="waits")
async def waits():
    return await tiffany.receive_message("go")

loop = asyncio.new_event_loop()
for id in ("a", "b"):
    task = loop.create_task(tiffany.arun(waits(), wal={str(tmp_path)!r}, id=id))
    # Python says itself that a task was destroyed; here it is of no interest.
    task._log_destroy_pending = False
    loop.run_until_complete(asyncio.sleep(0.05))
del task
loop.close()
gc.collect()

async def again():
    both = (tiffany.arun(waits(), wal={str(tmp_path)!r}, id=id) for id in ("a", "b"))
    both = asyncio.gather(*both)
    await asyncio.sleep(0.05)
    for id in ("a", "b"):
        with tiffany.connect({str(tmp_path)!r}) as runs:
            await asyncio.to_thread(runs.send, id, "go", id)
    return await both

print(asyncio.run(again()))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("['a', 'b']\n", "")


LEFT = """
import asyncio, gc, sys, threading, tiffany

@tiffany.workflow(name="waits")
async def waits():
    await tiffany.receive_message("go")

@tiffany.workflow(name="quick")
async def quick():
    await tiffany.yield_now()
    return "done"

def left():
    loop = asyncio.new_event_loop()
    task = loop.create_task(tiffany.arun(waits(), wal=sys.argv[1], id="left"))
    task._log_destroy_pending = False
    loop.run_until_complete(asyncio.sleep(0.05))
    loop.close()

if sys.argv[2] == "same":
    left()
else:
    thread = threading.Thread(target=left)
    thread.start()
    thread.join()
try:
    if sys.argv[3] == "run":
        print(tiffany.run(quick(), wal=sys.argv[1], id="quick"))
    else:
        print(asyncio.run(tiffany.arun(quick(), wal=sys.argv[1], id="quick")))
except tiffany.TiffanyError as error:
    print(error.code, "closed while calls of `arun` were pending" in str(error))
"""


@pytest.mark.parametrize("way", ["run", "arun"])
@pytest.mark.parametrize(("where", "said"), [("same", "done\n"), ("other", "TFY0222 True\n")])
def test_the_directory_of_a_loop_that_was_closed_early(
    tmp_path: Path, way: str, where: str, said: str
) -> None:
    words = [sys.executable, "-c", LEFT, str(tmp_path), where, way]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.stdout == said, ended.stderr


def test_two_workflows_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    def of(said: str) -> Any:
        async def says() -> str:
            await tiffany.yield_now()
            return said

        says.__qualname__ = "says"
        return says

    first, second = of("first"), of("second")

    async def main() -> None:
        settings: Any = {"wal": tmp_path}
        waits = asyncio.create_task(arun(never(), id="never", workflows=[first], **settings))
        await asyncio.sleep(0)
        assert await arun(halved(2), id="h", workflows=[first], **settings) == 1
        with pytest.raises(
            tiffany.errors.BadArgumentError, match=r"two workflows are called .*says"
        ):
            await arun(halved(4), id="i", workflows=[second], **settings)
        waits.cancel()
        await asyncio.wait((waits,))

    asyncio.run(main())
