"""What goes wrong at the edges: programs of two owners, exceptions that travel, the end of the interpreter."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import AlreadyBegunError, create_group, sleep, spawn, step, timeout, wait


def python(program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=50
    )


def test_a_program_that_is_refused_stays_its_owners() -> None:
    def child() -> Generator[Any, Any, str]:
        yield tiffany.Sleep(0.02)
        return "child"

    async def main() -> str:
        program = child()
        owner = await spawn(program)
        await sleep(0.001)
        with pytest.raises(AlreadyBegunError):
            await wait(await spawn(program))
        return await wait(owner)

    assert tiffany.run(main()) == "child"


def test_a_group_does_not_hide_the_exception_of_its_block() -> None:
    async def main() -> None:
        async with await create_group():
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        tiffany.run(main())


def test_no_line_of_rust_is_shown() -> None:
    async def main() -> None:
        await timeout(0.001, sleeper())

    async def sleeper() -> None:
        await sleep(10)

    with pytest.raises(TimeoutError) as raised:
        tiffany.run(main())
    assert "TFY0028" in str(raised.value)
    assert ".rs" not in str(raised.value)


@step
def lookup() -> int:
    return [1][3]


def test_an_exception_of_a_step_says_where_and_can_be_pickled() -> None:
    async def main() -> IndexError:
        try:
            await lookup()
        except IndexError as error:
            return error
        raise AssertionError("it fails")

    error = tiffany.run(main())
    assert any("in lookup" in note for note in error.__notes__)
    assert repr(pickle.loads(pickle.dumps(error))) == repr(error)


LOCK = """
import threading, sys
import tiffany
from tiffany import NotSerializableError, Runtime, create_external_promise, step, wait, workflow

@step
def lock(): return threading.Lock()

@workflow(name="flow")
async def flow():
    try:
        await lock()
    except NotSerializableError as error:
        caught = str(error)
    promise = await create_external_promise()
    print(promise.uuid, flush=True)
    return caught, await wait(promise.future)

if sys.argv[1] == "leave":
    import os, threading
    threading.Timer(1.0, os._exit, (0,)).start()
print(tiffany.run(flow(), wal="wal", id="one"))
"""


def test_what_cannot_be_written_down_is_the_same_error_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(LOCK)
    flow = [sys.executable, "-W", "ignore", "flow.py"]
    left = subprocess.run(
        [*flow, "leave"], cwd=tmp_path, capture_output=True, text=True, timeout=50
    )
    uuid = left.stdout.strip()
    tiffany.complete_by_uuid(uuid, 7, wal=tmp_path / "wal")
    again = subprocess.run([*flow, "go"], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert again.returncode == 0, again.stderr
    assert "TFY0034" in again.stdout and again.stdout.rstrip().endswith(", 7)")


def test_a_busy_loop_of_a_daemon_thread_does_not_end_the_interpreter_badly(tmp_path: Path) -> None:
    done = python(
        "import tiffany, threading, time\n"
        "def forever():\n"
        "    while True: yield\n"
        "threading.Thread(target=lambda: tiffany.run(forever()), daemon=True).start()\n"
        "time.sleep(0.2)\n",
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_step_does_not_keep_its_module_alive(tmp_path: Path) -> None:
    done = python(
        "import tiffany\n"
        "@tiffany.step\n"
        "def one(): return 1\n"
        "file = open('out.txt', 'w')\n"
        "file.write('x')\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.txt").read_text() == "x"


def test_a_setting_that_makes_no_sense_is_named() -> None:
    async def main() -> None: ...

    program = main()
    with pytest.raises(tiffany.BadArgumentError, match="threads"):
        tiffany.run(program, threads=-1)
    program.close()
