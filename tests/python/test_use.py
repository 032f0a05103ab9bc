"""Uses that cannot work: other threads, forked processes, sub-interpreters, runs inside runs. Each is a clear exception with a code, and never a
crash of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import _core
from tiffany.calls import Sleep, Spawn, Wait, Yield

SETTINGS: dict[str, Any] = {
    "env": None,
    "handlers": None,
    "name": None,
    "end": "all",
    "limits": None,
    "cancel_grace": None,
    "policy": "fifo",
    "threads": 1,
    "step_slots": 4,
    "run_limits": None,
}


async def nothing() -> str:
    await Yield()
    return "value"


def on_a_thread(act: Any) -> Any:
    """What a function gives, or raises, on another thread."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(act())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def in_a_child(act: Any) -> str:
    """What a function says in a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(act())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def test_a_runtime_belongs_to_its_thread() -> None:
    """A runtime is used on the thread that made it."""
    runtime = _core.Runtime(SETTINGS)
    program = nothing()
    error = on_a_thread(lambda: runtime.run(program))
    assert isinstance(error, tiffany.errors.WrongThreadError)
    assert error.code == "TFY0046"
    assert isinstance(on_a_thread(runtime.close), tiffany.errors.WrongThreadError)
    assert runtime.run(program) == "value"
    runtime.close()
    program = nothing()
    with pytest.raises(tiffany.errors.GoneError, match="closed"):
        runtime.run(program)
    program.close()


def test_a_runtime_that_another_thread_forgets() -> None:
    """One that is dropped elsewhere is left as it is."""
    assert on_a_thread(lambda: _core.Runtime(SETTINGS)) is not None


def test_each_thread_may_have_a_run() -> None:
    """Runs on several threads at once do not know of each other."""

    async def main(n: int) -> int:
        tasks = [await Spawn(nothing()) for _ in range(20)]
        for task in tasks:
            assert await Wait(task) == "value"
        await Sleep(0.001)
        return n

    results: list[int] = []

    def run(n: int) -> None:
        results.append(tiffany.run(main(n)))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(8))


def test_handles_of_another_run() -> None:
    """Handles of one run are errors in another, and both go on; dropped there, they go back."""

    async def first() -> Any:
        return await Spawn(nothing()), await tiffany.calls.CreatePromise()

    async def second(task: Any, promise: Any) -> list[str]:
        codes: list[str] = []
        for call in (Wait(task), tiffany.calls.Cancel(task), promise.complete(1)):
            try:
                await call
            except tiffany.errors.ForeignRunError as error:
                codes.append(error.code)
        return codes

    task, promise = tiffany.run(first())
    assert tiffany.run(second(task, promise)) == ["TFY0008"] * 3
    assert on_a_thread(lambda: tiffany.run(second(task, promise))) == ["TFY0008"] * 3


def test_a_run_inside_a_run() -> None:
    """A task cannot run a run of its own; the outer one goes on."""

    async def main() -> str:
        program = nothing()
        try:
            tiffany.run(program)
        except tiffany.errors.NestedRuntimeError as error:
            program.close()
            return error.code
        raise AssertionError

    assert tiffany.run(main()) == "TFY0025"


def test_calls_outside_a_run() -> None:
    """A call is an object; awaited where no task runs, it is an error that says where it belongs."""
    assert repr(Sleep(1.5)) == "Sleep(1.5)"

    async def main() -> None:
        await Sleep(1.5)

    with pytest.raises(tiffany.errors.OutsideTaskError, match=r"tiffany\.run") as caught:
        main().send(None)
    assert caught.value.code == "TFY0004"


def test_a_runtime_in_a_forked_process() -> None:
    """A runtime of the parent is an error in the child; one of its own works there."""
    runtime = _core.Runtime(SETTINGS)

    def child() -> str:
        program = nothing()
        try:
            runtime.run(program)
        except tiffany.errors.ForkedError as error:
            return f"{error.code} {tiffany.run(program)}"
        return "it ran"

    assert in_a_child(child) == "TFY0047 value"
    assert runtime.run(nothing()) == "value"
    runtime.close()


def test_a_task_that_forks() -> None:
    """The child ends at the next call of the task that forked: no other task goes on there, and nobody's `finally` runs."""
    reader, writer = os.pipe()
    parent = os.getpid()

    def say(text: str) -> None:
        os.write(writer, f"{text}\n".encode())

    async def other() -> None:
        try:
            for _ in range(20):
                if os.getpid() != parent:
                    say("another task ran")
                await Yield()
        finally:
            if os.getpid() != parent:
                say("another task was closed")

    async def forks() -> int:
        child = os.fork()
        try:
            await Yield()
        finally:
            if os.getpid() != parent:
                say("the task went on")
        return child

    async def main() -> int:
        await Spawn(other())
        return await Wait(await Spawn(forks()))

    try:
        child = tiffany.run(main())
    finally:
        if os.getpid() != parent:
            say("the run ended")
            os._exit(7)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        assert file.read() == ""
    assert os.waitstatus_to_exitcode(status) == 1


def test_multiprocessing_from_a_task() -> None:
    """A process that is forked from inside a task is still inside of it, and says so; one that is spawned is free."""
    program = """
        import multiprocessing, sys
        import tiffany

        async def nothing():
            return "value"

        def child(queue):
            program = nothing()
            try:
                queue.put(tiffany.run(program))
            except tiffany.errors.ForkedError as error:
                program.close()
                queue.put(error.code)

        async def main(method):
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            answer = queue.get(timeout=50)
            process.join()
            return answer

        if __name__ == "__main__":
            print(tiffany.run(main("fork")), tiffany.run(main("spawn")), flush=True)
        """
    assert run_file(program) == "TFY0047 value\n"


def run_file(program: str) -> str:
    """What a program says that is run from a file of its own, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py")
        file.write_text(textwrap.dedent(program))
        command = [sys.executable, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_sub_interpreters() -> None:
    """Imported in a sub-interpreter, the package says that it cannot work there."""
    program = """
        import textwrap
        import _xxsubinterpreters as interpreters
        import tiffany

        code = '''
        try:
            import tiffany
        except ImportError as error:
            print(type(error).__name__, error.code, flush=True)
        '''
        other = interpreters.create(isolated=False)
        interpreters.run_string(other, textwrap.dedent(code))
        interpreters.destroy(other)

        async def main():
            return "the main interpreter goes on"

        print(tiffany.run(main()))
        """
    expected = "SubinterpreterError TFY0049\nthe main interpreter goes on\n"
    assert run_file(program) == expected


def test_the_interpreter_ends_while_a_run_is_left() -> None:
    """What is left of runs at the end of the interpreter does no harm."""
    program = """
        import threading, time
        import tiffany
        from tiffany.calls import Sleep, Spawn

        async def sleeper():
            await Sleep(60)

        async def main():
            await Spawn(sleeper())
            return await tiffany.calls.CreateExternalPromise()

        threading.Thread(target=lambda: tiffany.run(sleeper()), daemon=True).start()
        time.sleep(0.05)
        kept = tiffany.run(main(), end="root")
        left = Sleep(1)
        print("end")
        """
    assert run_file(program) == "end\n"
