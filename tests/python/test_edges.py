"""What goes wrong at the edges: programs of two owners, exceptions that travel, the end of the interpreter."""

from __future__ import annotations

import contextlib
import functools
import pickle
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import create_group, sleep, spawn, step, timeout, wait, workflow
from tiffany.errors import AlreadyBegunError


def python(program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=50
    )


def test_a_program_that_is_refused_stays_its_owners() -> None:
    def child() -> Generator[Any, Any, str]:
        yield tiffany.calls.Sleep(0.02)
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
from tiffany import create_external_promise, Runtime, step, wait, workflow
from tiffany.errors import NotSerializableError

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


def length(error: BaseException) -> int:
    count, traceback = 0, error.__traceback__
    while traceback is not None:
        count, traceback = count + 1, traceback.tb_next
    return count


def test_an_exception_that_is_raised_again_and_again_does_not_grow() -> None:
    error = ValueError("the same object")

    def fails() -> Generator[Any, Any, None]:
        yield
        raise error

    def main() -> Generator[Any, Any, None]:
        for _ in range(1000):
            with contextlib.suppress(ValueError):
                yield tiffany.calls.Wait((yield tiffany.calls.Spawn(fails())))
            with contextlib.suppress(ValueError):
                yield tiffany.calls.Blocking(raise_it)

    def raise_it() -> None:
        raise error

    tiffany.run(main())
    assert 0 < length(error) <= 402


@step
def over_the_limit() -> None:
    raise tiffany.errors.of_code("TFY0016")("too long")


@step
def log_in_use() -> None:
    raise tiffany.errors.of_code("TFY0101")("in use")


@pytest.mark.parametrize(
    ("failing", "cls", "code"),
    [
        (over_the_limit, tiffany.errors.LimitError, "TFY0016"),
        (log_in_use, tiffany.errors.LogInUseError, "TFY0101"),
    ],
)
def test_an_error_of_tiffany_that_a_step_raises_keeps_its_class_and_code(
    failing: Any, cls: type[tiffany.TiffanyError], code: str
) -> None:
    async def main() -> tiffany.TiffanyError:
        try:
            await failing()
        except tiffany.TiffanyError as error:
            return error
        raise AssertionError("it fails")

    error = tiffany.run(main())
    assert type(error) is tiffany.errors.of_code(code)
    assert isinstance(error, cls) and error.code == code
    assert type(pickle.loads(pickle.dumps(error))) is type(error)


CLASSES = """
import sys
import tiffany
from tiffany import step, workflow

@step
def fails(): raise tiffany.errors.of_code(sys.argv[2])("why")

@workflow(name="flow")
async def flow():
    try:
        await fails()
    except tiffany.TiffanyError as error:
        return type(error).__qualname__, error.code, isinstance(error, tiffany.errors.LimitError)

@workflow(name="raises")
async def raises():
    await fails()

@workflow(name="leaves")
async def leaves():
    await tiffany.sleep(0)
    sys.exit(3)

try:
    print(tiffany.run(globals()[sys.argv[1]](), wal="wal", id="-".join(sys.argv)))
except tiffany.TiffanyError as error:
    print(type(error).__qualname__, error.code, error)
"""


@pytest.mark.parametrize(
    ("what", "code", "says"),
    [
        ("flow", "TFY0016", "('LimitError.TFY0016', 'TFY0016', True)"),
        ("flow", "TFY0024", "('DeadlockError', 'TFY0024', False)"),
        ("raises", "TFY0016", "LimitError.TFY0016 TFY0016 why"),
        ("raises", "TFY0101", "LogInUseError TFY0101 why"),
        ("raises", "TFY0030", "TiffanyError.TFY0030 TFY0030 why"),
    ],
)
def test_it_does_so_in_another_process(tmp_path: Path, what: str, code: str, says: str) -> None:
    (tmp_path / "flow.py").write_text(CLASSES)
    command = [sys.executable, "flow.py", what, code]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
        assert (done.stdout.rstrip(), done.stderr) == (says, "")


def test_sys_exit_in_a_workflow_ends_its_process_and_its_run(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(CLASSES)
    command = [sys.executable, "flow.py", "leaves"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert again.returncode == 0, again.stderr
    assert "SystemExit: 3 ended it" in again.stdout and "return from it" in again.stdout
    assert "TFY0001" in again.stdout and "importable" not in again.stdout


def counted(function: Any) -> Any:
    @functools.wraps(function)
    def counting(*args: Any) -> Any:
        counting.calls += 1  # type: ignore[attr-defined]
        return function(*args)

    counting.calls = 0  # type: ignore[attr-defined]
    return counting


def test_a_workflow_may_be_under_a_decorator(tmp_path: Path) -> None:
    @workflow(name="test_edges.decorated")
    @counted
    def decorated(n: int) -> Generator[Any, Any, int]:
        yield
        return n + 1

    @counted
    def bare(n: int) -> Generator[Any, Any, int]:
        yield
        return n

    with tiffany.Runtime(wal=tmp_path) as runtime:
        assert runtime.wait(runtime.submit(decorated, 1, id="a")) == 2
        assert decorated.calls == 1
        assert runtime.run(decorated(2), id="b") == 3
        with pytest.raises(tiffany.errors.BadArgumentError, match=r"put @tiffany\.workflow above"):
            runtime.submit(bare, 1, id="c")
    with pytest.raises(tiffany.errors.BadArgumentError, match="is not a workflow"):
        workflow(counted(lambda: 1))


def test_two_steps_of_a_module_have_two_names() -> None:
    def made(qualname: str, module: str, name: str) -> Any:
        def function() -> None: ...

        function.__qualname__, function.__module__, function.__name__ = qualname, module, name
        return step(function)

    made("pay", "test_edges.shop", "pay")
    made("pay", "test_edges.shop", "pay").with_options(retries=2)
    made("pay", "test_edges.bank", "pay")
    made("test.<locals>.pay", "test_edges.shop", "pay")
    with pytest.raises(
        tiffany.errors.BadArgumentError, match=r"`pay` and `Bank.pay` \[TFY0032\]; give one"
    ):
        made("Bank.pay", "test_edges.shop", "pay")


def test_a_run_of_another_big_number_is_another_run(tmp_path: Path) -> None:
    @workflow(name="test_edges.big")
    def big(n: int) -> Generator[Any, Any, int]:
        yield
        return n

    with tiffany.Runtime(wal=tmp_path) as runtime:
        assert runtime.wait(runtime.submit(big, 2**64, id="a")) == 2**64
        with pytest.raises(tiffany.errors.OtherRunError):
            runtime.submit(big, 2**64 + 1, id="a")


def test_a_setting_that_makes_no_sense_is_named() -> None:
    async def main() -> None: ...

    program = main()
    with pytest.raises(tiffany.errors.BadArgumentError, match="threads"):
        tiffany.run(program, threads=-1)
    program.close()


def test_calls_are_awaited_under_a_tracer(tmp_path: Path) -> None:
    """As under a debugger or a coverage tool. The interpreter then resumes awaiters by their method `send`."""

    @step
    def both(n: int) -> tuple[int, None]:
        return n, None

    @workflow
    async def main() -> list[Any]:
        await sleep(0)
        return [await both(1), await wait(await spawn(child()))]

    async def child() -> tuple[int, ...]:
        await sleep(0)
        return 2, 3

    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        assert tiffany.run(main(), wal=tmp_path, id="one") == [(1, None), (2, 3)]
    finally:
        sys.settrace(before)
