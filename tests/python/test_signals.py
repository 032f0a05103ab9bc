"""Ctrl-C, the request to end, and what tasks notice of them. Each test has a real process."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from command_kit import Home, Started

PROGRAM = '''
import signal, sys, time
import tiffany
from tiffany.calls import Blocking, GatherSettled, Sleep, Spawn


def say(*words):
    print(*words, flush=True)


def worker(name, cleanup=0.05):
    try:
        yield Sleep(60)
    except tiffany.Cancelled:
        say(name, "is cancelled")
        raise
    except BaseException as error:
        say(name, "sees", repr(error))
        raise
    finally:
        yield Sleep(cleanup)
        say(name, "is clean")


def sleeps(cleanup="0.05"):
    for name in ("one", "two"):
        yield Spawn(worker(name, float(cleanup)))
    say("ready")
    yield from worker("root", float(cleanup))


def computes():
    """Its Python code is at work when the signal comes, and nothing is ever waited for."""
    say("ready")
    try:
        while True:
            for _ in range(100_000):
                pass
            yield
    except BaseException as error:
        say("sees", type(error).__name__)
        raise
    finally:
        say("clean")


def swallows():
    """It catches what it can, which must not be Ctrl-C."""
    say("ready")
    while True:
        try:
            for _ in range(1_000_000):
                pass
        except BaseException as error:
            say("caught", repr(error))
        yield


def keeps_its_turn():
    say("ready")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        pass
    yield


def blocks():
    say("ready")
    try:
        yield Blocking(time.sleep, 2)
    finally:
        say("clean")


def many():
    """Signals between any two turns."""
    def turns():
        while True:
            yield Sleep(0.0001)
    for _ in range(10):
        yield Spawn(turns())
    say("ready")
    yield Sleep(60)


def raises():
    yield Spawn(worker("other"))
    yield Sleep(0)
    raise KeyboardInterrupt("of its own")


def leaves():
    yield Spawn(worker("other"))
    yield Sleep(0)
    sys.exit(5)


def embedded():
    before = signal.getsignal(signal.SIGINT)
    try:
        tiffany.run(sleeps())
    except KeyboardInterrupt:
        say("KeyboardInterrupt")
    say("restored", signal.getsignal(signal.SIGINT) is before, signal.set_wakeup_fd(-1))
    say("again", tiffany.run(quick()))


def quick():
    yield Sleep(0.001)
    return "works"


def own_handler():
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1) or say("mine"))
    def program():
        say("ready", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        while not seen:
            yield Sleep(0.01)
        return "went on"
    say(tiffany.run(program()))


def thread():
    import threading
    values = []
    started = threading.Thread(target=lambda: values.append(tiffany.run(quick())))
    started.start()
    started.join()
    say(values)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
'''


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("app.py", PROGRAM)
    return home


def ready(started: Started) -> Started:
    assert started.line() == "ready"
    return started


CLEANED = {
    f"{name} {what}" for name in ("root", "one", "two") for what in ("is cancelled", "is clean")
}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_lets_all_tasks_clean_up(home: Home, number: int, code: int) -> None:
    with home.start("run", "app.py:sleeps") as started:
        ready(started).signal(number)
        ended = started.end()
    assert (ended.code, ended.err) == (code, "")
    assert set(ended.out.splitlines()) == CLEANED
    assert ended.seconds < 30


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_does_not_wait_for_that(home: Home, number: int, code: int) -> None:
    with home.start("run", "app.py:sleeps", "50") as started:
        ready(started).signal(number)
        cancelled = {started.line() for _ in range(3)}
        started.signal(number)
        ended = started.end()
    assert cancelled == {"root is cancelled", "one is cancelled", "two is cancelled"}
    assert (ended.code, ended.out, ended.err) == (code, "", "")
    assert ended.seconds < 30


def test_code_that_is_at_work_is_cancelled_at_its_next_call(home: Home) -> None:
    with home.start("run", "app.py:computes") as started:
        ready(started).signal(signal.SIGINT)
        ended = started.end()
    assert (ended.code, ended.err) == (130, "")
    assert ended.out.splitlines() == ["sees Cancelled", "clean"]


def test_what_is_waited_for_is_said_and_what_the_second_does(home: Home) -> None:
    with home.start("run", "app.py:keeps_its_turn") as started:
        ready(started).signal(signal.SIGINT)
        time.sleep(2.5)
        started.signal(signal.SIGINT)
        ended = started.end()
    assert ended.code == 130
    assert "tiffany: asked to end; waiting for the task at " in ended.err
    assert "app.py:" in ended.err and "a second Ctrl-C ends it at once" in ended.err
    assert ended.seconds < 25


def test_a_long_cleanup_is_said_too(home: Home) -> None:
    with home.start("run", "app.py:sleeps", "2.5") as started:
        ready(started).signal(signal.SIGINT)
        ended = started.end()
    assert ended.code == 130
    assert ended.err == (
        "tiffany: asked to end; waiting for the tasks to clean up; a second Ctrl-C does not wait\n"
    )
    assert set(ended.out.splitlines()) == CLEANED


def test_a_task_that_catches_everything_catches_no_ctrl_c(home: Home) -> None:
    with home.start("run", "app.py:swallows") as started:
        ready(started).signal(signal.SIGINT)
        ended = started.end()
    assert (ended.code, ended.out) == (130, "")
    # On a slow machine what is waited for is said.
    assert ended.err == "" or ended.err.startswith("tiffany: asked to end; waiting for the task at")


def test_work_on_a_thread_is_not_waited_for_by_its_task(home: Home) -> None:
    with home.start("run", "app.py:blocks") as started:
        ready(started).signal(signal.SIGINT)
        ended = started.end()
    assert (ended.code, ended.out) == (130, "clean\n")


def test_a_signal_is_noticed_whenever_it_comes(home: Home) -> None:
    for delay in range(8):
        with home.start("run", "app.py:many") as started:
            ready(started)
            # Not at the same place each time.
            for _ in range(delay * 20_000):
                pass
            started.signal(signal.SIGINT)
            ended = started.end()
        assert (ended.code, ended.err) == (130, ""), delay
        assert ended.seconds < 30


def test_it_is_raised_from_run_and_the_handler_is_python_s_again(home: Home) -> None:
    with home.python("app.py", "embedded") as started:
        ready(started).signal(signal.SIGINT)
        ended = started.end()
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert set(lines[:6]) == CLEANED
    assert lines[6:] == ["KeyboardInterrupt", "restored True -1", "again works"]


def test_an_unhandled_one_ends_python_as_always(home: Home) -> None:
    home.write("b.py", "import app, tiffany\ntiffany.run(app.sleeps())\n")
    with home.python("b.py") as started:
        ready(started).signal(signal.SIGINT)
        ended = started.end()
    assert ended.code == -signal.SIGINT
    assert ended.err.rstrip().endswith("KeyboardInterrupt")
    assert set(ended.out.splitlines()) == CLEANED


def test_a_handler_of_the_programs_own_stays(home: Home) -> None:
    with home.python("app.py", "own_handler") as started:
        assert started.line() == "ready False"
        started.signal(signal.SIGINT)
        assert started.end().ok() == "mine\nwent on\n"


def test_on_another_thread_nothing_changes(home: Home) -> None:
    with home.python("app.py", "thread") as started:
        assert started.end().ok() == "['works']\n"


def test_a_task_that_raises_it_ends_the_run_and_the_others_clean_up(home: Home) -> None:
    ended = home.run("run", "app.py:raises")
    assert (ended.code, ended.out, ended.err) == (130, "other is cancelled\nother is clean\n", "")
    ended = home.run("run", "app.py:leaves")
    assert (ended.code, ended.out, ended.err) == (5, "other is cancelled\nother is clean\n", "")


def test_a_file_that_is_still_loading_can_be_stopped(home: Home) -> None:
    home.write("b.py", "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with home.start("run", "b.py") as started:
            ready(started).signal(number)
            ended = started.end()
        assert (ended.code, ended.err) == (code, "")
