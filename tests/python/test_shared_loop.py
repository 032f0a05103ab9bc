"""The loop of asyncio that all share: nobody who runs on it can stop it, and a fork has its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import SharedLoopError, _loop, aio, step, workflow


async def stops() -> None:
    asyncio.get_running_loop().stop()


async def closes() -> None:
    asyncio.get_running_loop().close()


async def shuts_down() -> None:
    await asyncio.get_running_loop().shutdown_default_executor()


async def on_a_thread() -> int:
    return await asyncio.get_running_loop().run_in_executor(None, lambda: 4)


@step
async def works() -> int:
    await asyncio.sleep(0.001)
    return await on_a_thread()


@pytest.mark.parametrize("harm", [stops, closes, shuts_down])
def test_a_step_that_stops_it_has_an_error_and_the_next_one_works(
    harm: Callable[[], Any], tmp_path: Path
) -> None:
    ends = step(harm)

    @workflow
    async def main() -> int:
        try:
            await ends()
        except SharedLoopError as error:
            assert error.code == "TFY0056" and "return from the coroutine" in str(error)
            return await works()
        return -1

    assert tiffany.run(main(), wal=tmp_path, id="one") == 4


def test_so_does_one_that_is_given_to_aio() -> None:
    async def main() -> int:
        with pytest.raises(SharedLoopError, match="TFY0056"):
            await aio(stops())
        return await aio(on_a_thread())

    assert tiffany.run(main()) == 4


def test_one_that_was_stopped_behind_its_back_goes_on() -> None:
    async def main() -> int:
        loop = _loop.background()
        loop.call_soon_threadsafe(lambda: type(loop).stop(loop))
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
