"""Durable runs by the command line: started, killed, interrupted, resumed and replayed with the code of a file."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from pathlib import Path

import pytest
from command_kit import Home

PROGRAM = """
import sys, time
from dataclasses import dataclass

from tiffany import create_external_promise, sleep, spawn, step, wait, workflow
from tiffany.calls import ask

def say(*words):
    print(*words, flush=True)


@dataclass
class Price:
    item: str
    cents: int


@step
def price(item):
    say("price of", item)
    return Price(item, 4200)


@step
def charge(price, key):
    say("charge", price.cents)
    return f"{price.item}: {price.cents} paid"


async def main(item, seconds="60"):
    found = await price(item)
    try:
        await sleep(float(seconds))
    finally:
        say("finally")
    return await charge(found, "k")


@workflow(name="approval")
async def approval(what):
    promise = await create_external_promise()
    say("waits for", promise.uuid)
    return f"{what}: {await wait(promise.future)}"


@step
def slow():
    say("slow begins")
    time.sleep(60)


async def with_slow_step():
    await slow()


async def setof():
    letters = {"a", "b", "c", "d", "e", "f", "g", "h"}
    for letter in letters:
        await price(letter)
    await sleep(60)


async def asks():
    shop = await ask("shop")
    await sleep(0.5)
    return shop


if __name__ == "__main__":
    import tiffany
    print(tiffany.run(main(*sys.argv[1:]), wal="wal", id="order-1"))
"""

WAL = ("--wal", "wal")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("app.py", PROGRAM)
    return home


def types(home: Home, id: str) -> list[str]:
    lines = home.run("--dir", "wal", "--json", "log", id).ok().splitlines()
    return [json.loads(line)["type"] for line in lines]


def asleep(home: Home, id: str) -> None:
    """Waits until a run sleeps, which is in the log as soon as it is safe."""
    while '"call":"sleep' not in home.run("--dir", "wal", "--json", "log", id).out:
        time.sleep(0.01)


def listens(home: Home) -> None:
    """Waits until a process has the directory, and can be spoken to."""
    while True:
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.connect(str(home.path / "wal" / "control.sock"))
            return
        time.sleep(0.01)


def test_a_run_that_was_killed_goes_on_where_it_was(home: Home) -> None:
    command = ("run", *WAL, "--id", "order-1", "app.py", "tea", "1.5")
    with home.start(*command) as started:
        assert started.line() == "price of tea"
        asleep(home, "order-1")
        started.signal(signal.SIGKILL)
        assert started.end().code == -signal.SIGKILL
    assert home.run(*command).ok() == "finally\ncharge 4200\ntea: 4200 paid\n"
    assert home.run(*command).ok() == "tea: 4200 paid\n"


def test_it_does_not_matter_by_which_way_a_run_was_started(home: Home) -> None:
    with home.python("app.py", "tea", "1.5", PYTHONHASHSEED="0") as started:
        assert started.line() == "price of tea"
        asleep(home, "order-1")
        started.signal(signal.SIGKILL)
        started.end()
    out = home.run("run", *WAL, "--id", "order-1", "app.py", "tea", "1.5").ok()
    assert out == "finally\ncharge 4200\ntea: 4200 paid\n"
    with home.python("app.py", "tea", "1.5", PYTHONHASHSEED="0") as started:
        assert started.end().ok() == "tea: 4200 paid\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_run_as_it_is(home: Home, number: int, code: int) -> None:
    command = ("run", *WAL, "--id", "order-1", "app.py", "tea", "2")
    with home.start(*command) as started:
        assert started.line() == "price of tea"
        asleep(home, "order-1")
        started.signal(number)
        ended = started.end()
    assert (ended.code, ended.out) == (code, "")
    if number == signal.SIGINT:
        assert ended.err == "interrupted; run 'order-1' continues when it is started again\n"
    assert types(home, "order-1")[-1] == "ShutdownMarker"
    assert home.run(*command).ok() == "finally\ncharge 4200\ntea: 4200 paid\n"


def test_a_second_one_does_not_wait_for_a_step(home: Home) -> None:
    with home.start("run", *WAL, "--id", "slow", "app.py:with_slow_step") as started:
        assert started.line() == "slow begins"
        started.signal(signal.SIGINT)
        assert started.process.stderr is not None
        assert "interrupted" in started.process.stderr.readline()
        assert "still running" in started.process.stderr.readline()
        started.signal(signal.SIGINT)
        ended = started.end()
    assert ended.code == 130
    assert ended.seconds < 40
    assert types(home, "slow")[-1] == "ShutdownMarker"


def test_resume_drives_what_is_unfinished_with_the_code_of_a_file(home: Home) -> None:
    for id, item in (("a", "tea"), ("b", "cake")):
        with home.start("run", *WAL, "--id", id, "app.py", item, "4") as started:
            started.line()
            asleep(home, id)
            started.signal(signal.SIGKILL)
            started.end()
    out = home.run("--app", "app.py", "--dir", "wal", "resume", "--all").ok()
    assert "2 completed, 0 failed" in out
    assert out.count("charge 4200") == 2
    assert '"cake: 4200 paid"' in out
    assert home.run("--dir", "wal", "resume", "--all", TIFFANY_APP="app.py").code == 0


def test_ctrl_c_leaves_what_resume_drives(home: Home) -> None:
    with home.start("run", *WAL, "--id", "a", "app.py", "tea", "600") as started:
        started.line()
        asleep(home, "a")
        started.signal(signal.SIGKILL)
        started.end()
    with home.start("--app", "app.py", "--dir", "wal", "resume", "a") as started:
        listens(home)
        # Who answers this drives its runs.
        assert "TFY0044" in home.run("--dir", "wal", "query", "a", "anything").err
        started.signal(signal.SIGINT)
        ended = started.end()
    assert (ended.code, ended.err) == (5, ""), ended
    assert "finally" not in ended.out
    assert "0 failed" in ended.out
    assert types(home, "a")[-1] == "ShutdownMarker"


def test_replay_compares_a_run_with_the_code_of_a_file(home: Home) -> None:
    home.run("run", *WAL, "--id", "order-1", "app.py", "tea", "0").ok()
    command = ("--app", "app.py", "--dir", "wal", "replay", "order-1")
    assert ": identical (" in home.run(*command).ok()
    text = (home.path / "app.py").read_text()
    home.write(
        "app.py", text.replace("found = await price(item)", "found = await price(item + '!')")
    )
    ended = home.run(*command)
    assert ended.code == 1
    assert "TFY0036" in ended.err
    assert "app.py:" in ended.err
    assert "price" in ended.err


def test_show_and_inspect_know_where_a_task_stands(home: Home) -> None:
    with home.start("run", *WAL, "--id", "a", "app.py:approval", "plan") as started:
        uuid = started.line().split()[-1]
        started.signal(signal.SIGKILL)
        started.end()
    out = home.run("--app", "app.py", "--dir", "wal", "show", "a").ok()
    assert "function    approval" in out
    assert "Blocked(external) at" in out
    home.run("--app", "app.py", "--dir", "wal", "resume", "--dry-run").ok()
    home.run("--dir", "wal", "settle", uuid, '"yes"').ok()
    out = home.run("--app", "app.py", "--dir", "wal", "resume", "a").ok()
    assert '"plan: yes"' in out


def test_sets_have_the_order_they_had(home: Home) -> None:
    letters = []
    with home.start("run", *WAL, "--id", "s", "app.py:setof", PYTHONHASHSEED="3") as started:
        letters = [started.line() for _ in range(8)]
        started.signal(signal.SIGKILL)
        started.end()
    assert len(set(letters)) == 8
    out = home.run("--app", "app.py", "--dir", "wal", "replay", "s", PYTHONHASHSEED="99").ok()
    assert ": identical" in out


def test_a_file_says_what_its_runs_need(home: Home) -> None:
    text = (home.path / "app.py").read_text()
    home.write("app.py", text + 'tiffany_settings = {"env": {"shop": "corner"}, "wal": "wal"}\n')
    assert home.run("run", "app.py:asks").ok() == "corner\n"
    assert home.run("run", "--env", "shop=mine", "app.py:asks").ok() == "mine\n"
    with home.start("run", *WAL, "--id", "a", "app.py:asks") as started:
        asleep(home, "a")
        started.signal(signal.SIGKILL)
        started.end()
    # The directory is the file's own too.
    assert '"corner"' in home.run("--app", "app.py", "resume", "a").ok()


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ('tiffany_settings = {"colour": 1}', "TFY0074", "'colour'"),
        ("tiffany_settings = 3", "TFY0074", "3"),
        ("1 / 0", "TFY0074", "ZeroDivisionError"),
        ("import sys; sys.exit(0)", "TFY0074", "SystemExit"),
    ],
)
def test_a_file_that_is_not_fit_is_an_error(home: Home, text: str, code: str, says: str) -> None:
    home.run("run", *WAL, "--id", "order-1", "app.py", "tea", "0").ok()
    home.write("bad.py", text)
    ended = home.run("--app", "bad.py", "--dir", "wal", "replay", "order-1")
    assert ended.code == 1
    assert f"error[{code}]" in ended.err
    assert says in ended.err


@pytest.mark.parametrize(
    ("words", "exit", "code"),
    [
        (("run", "--wal", "wal", "app.py", "tea"), 2, "TFY0067"),
        (("run", *WAL, "--id", "order-1", "app.py", "cake"), 1, "TFY0037"),
        (("--dir", "wal", "resume", "order-1"), 3, "TFY0063"),
        (("--dir", "wal", "replay", "order-1"), 3, "TFY0063"),
        (("--app", "no.py", "--dir", "wal", "replay", "order-1"), 1, "TFY0070"),
        (("--app", "app.py", "--dir", "wal", "replay", "nothing"), 1, "TFY0041"),
    ],
)
def test_what_cannot_be_done_is_said(
    home: Home, words: tuple[str, ...], exit: int, code: str
) -> None:
    home.run("run", *WAL, "--id", "order-1", "app.py", "tea", "0").ok()
    ended = home.run(*words)
    assert (ended.code, ended.out) == (exit, ""), ended
    assert f"error[{code}]: " in ended.err
    assert "Traceback" not in ended.err


def test_a_directory_in_use_is_said(home: Home) -> None:
    with home.start("run", *WAL, "--id", "a", "app.py", "tea", "60") as started:
        started.line()
        ended = home.run("run", *WAL, "--id", "b", "app.py", "tea", "0")
    assert ended.code == 4
    assert "error[TFY0101]" in ended.err


def test_a_run_without_its_code_stays_and_is_spoken_of(home: Home) -> None:
    with home.start("run", *WAL, "--id", "a", "app.py", "tea", "60") as started:
        started.line()
        started.signal(signal.SIGKILL)
        started.end()
    home.write("other.py", "async def main(): return 1\n")
    ended = home.run("run", *WAL, "--id", "b", "other.py")
    assert (ended.code, ended.out) == (0, "1\n")
    assert "app:main" in ended.err
    assert types(home, "a")[-1] != "TaskAbort"


def test_ctrl_c_while_the_app_is_loaded(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("slow.py", "import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    with home.start("--app", "slow.py", "--dir", "wal", "replay", "--all") as started:
        assert started.line() == "loading"
        started.signal(signal.SIGINT)
        ended = started.end()
    assert ended.code == 130, ended
    assert "loading 'slow.py' was interrupted" in ended.err
    assert "Traceback" not in ended.err
