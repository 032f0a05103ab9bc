"""The loop of asyncio that all share: nobody who runs on it can stop it, and a fork has its own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import aio, step, workflow
from tiffany._aio import loop as _loop
from tiffany.errors import SharedLoopError


async def stops() -> None:
    asyncio.get_running_loop().stop()


async def closes() -> None:
    asyncio.get_running_loop().close()


async def shuts_down() -> None:
    await asyncio.get_running_loop().shutdown_default_executor()


async def sets_task_factory() -> None:
    asyncio.get_running_loop().set_task_factory(lambda *_, **__: asyncio.Future())


async def sets_executor() -> None:
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)


async def on_a_thread() -> int:
    return await asyncio.get_running_loop().run_in_executor(None, lambda: 4)


@step
async def works() -> int:
    await asyncio.sleep(0.001)
    return await on_a_thread()


@pytest.mark.parametrize("harm", [stops, closes, shuts_down, sets_task_factory, sets_executor])
def test_a_step_that_stops_it_has_an_error_and_the_next_one_works(
    harm: Callable[[], Any], tmp_path: Path
) -> None:
    ends = step(harm)

    @workflow
    async def main() -> int:
        try:
            await ends()
        except SharedLoopError as error:
            assert error.code == "TFY0056" and "the loop is tiffany's" in str(error)
            return await works()
        return -1

    assert tiffany.run(main(), wal=tmp_path, id="one") == 4


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt, RecursionError, MemoryError])
def test_a_callback_that_raises_does_not_end_it(
    ending: type[BaseException], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def ends() -> None:
        raise ending

    @step
    async def leaves() -> None:
        asyncio.get_running_loop().call_soon(ends)

    @workflow
    async def main() -> int:
        await leaves()
        return await works()

    assert tiffany.run(main(), wal=tmp_path, id="one") == 4


def test_a_step_that_cancels_all_tasks_cancels_no_other_step(tmp_path: Path) -> None:
    began, cancelled = threading.Event(), threading.Event()

    @step
    async def waits() -> str:
        began.set()
        while not cancelled.is_set():
            await asyncio.sleep(0.001)
        async with asyncio.timeout(10):
            return "done"

    @step
    async def cancels() -> int:
        own = asyncio.create_task(asyncio.sleep(3600))
        while not began.is_set():
            await asyncio.sleep(0.001)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        cancelled.set()
        await asyncio.wait([own])
        return len(others)

    @workflow
    async def main() -> list[Any]:
        return await tiffany.gather(waits(), cancels())

    said, count = tiffany.run(main(), wal=tmp_path, id="one")
    assert said == "done" and count >= 2


def test_a_step_that_blocks_many_threads_leaves_some_for_others(tmp_path: Path) -> None:
    """As many as asyncio itself would have."""
    release = threading.Event()

    @step
    async def blocks() -> None:
        count = min(32, (os.cpu_count() or 1) + 4)
        await asyncio.gather(*(asyncio.to_thread(release.wait, 10) for _ in range(count)))

    @step
    async def releases() -> int:
        four = await on_a_thread()
        release.set()
        return four

    @workflow
    async def main() -> list[Any]:
        return await tiffany.gather(blocks(), releases())

    begun = time.monotonic()
    assert tiffany.run(main(), wal=tmp_path, id="one")[1] == 4
    assert time.monotonic() - begun < 9


def test_so_does_one_that_is_given_to_aio() -> None:
    async def main() -> int:
        with pytest.raises(SharedLoopError, match="TFY0056"):
            await aio(stops())
        return await aio(on_a_thread())

    assert tiffany.run(main()) == 4


def test_one_that_was_stopped_behind_its_back_goes_on() -> None:
    async def main() -> int:
        loop = _loop.background()
        loop.call_soon_threadsafe(lambda: asyncio.SelectorEventLoop.stop(loop))
        await tiffany.sleep(0.01)
        return await aio(on_a_thread())

    assert tiffany.run(main()) == 4


def test_a_child_of_fork_has_its_own_even_if_the_lock_was_held() -> None:
    parent = _loop.background()
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with _loop._lock:
            held.set()
            forked.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    child = os.fork()
    if child == 0:
        ok = False
        try:
            loop = _loop.background()
            four = asyncio.run_coroutine_threadsafe(on_a_thread(), loop).result(10)
            ok = loop is not parent and four == 4
        finally:
            os._exit(0 if ok else 1)
    forked.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _loop.background() is parent
