"""The threat: a look at the past of a run of Python shows variables as they were not, does something in the world, or runs a ``finally``."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_kit import TIMEOUT_SECONDS, Home, environment

PROGRAM = """
from pathlib import Path
from tiffany import sleep, spawn, step, wait
from tiffany.calls import put

LEDGER = Path(__file__).with_name("ledger")

def note(what):
    with LEDGER.open("a") as ledger:
        ledger.write(what + "\\n")

@step
def price(item):
    note(f"price {item}")
    return len(item) * 10

def inner(item):
    cents = yield price(item)
    return cents

async def main(*items):
    total = 0
    try:
        for item in items:
            found = await call(inner(item))
            total += found
            await put("total", total)
        if total > 1000:
            raise ValueError(f"{total} is too much")
        await sleep(0.001)
        return total
    finally:
        note("finally")

from tiffany.calls import call
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("app.py", PROGRAM)
    return home


def step(home: Home, run: str, *words: str) -> dict[str, Any]:
    command = ("--app", "app.py", "--dir", "wal", "--json", "replay", "--step", run, *words)
    shown: dict[str, Any] = json.loads(home.run(*command).ok())
    return shown


def records(home: Home, run: str) -> list[dict[str, Any]]:
    lines = home.run("--dir", "wal", "--json", "log", run).ok().splitlines()
    return [json.loads(line) for line in lines]


def test_variables_are_as_they_were(home: Home) -> None:
    home.run("run", "--wal", "wal", "--id", "a", "app.py", "tea", "cake", "bun").ok()
    ledger = (home.path / "ledger").read_text()
    calls = [record["seq"] for record in records(home, "a") if record.get("call") == "effect"]
    assert len(calls) == 3
    seen = []
    for seq in reversed(calls):
        (task,) = step(home, "a", "--at", str(seq))["tasks"]
        outer, inner = task["frames"]
        assert (outer["function"], inner["function"]) == ("main", "inner")
        assert inner["file"].endswith("app.py")
        assert PROGRAM.splitlines()[inner["line"] - 1].strip() == "cents = yield price(item)"
        seen.append((inner["locals"]["item"], outer["locals"]["total"], task["store"].get("total")))
    assert seen == [("'bun'", "70", "70"), ("'cake'", "30", "30"), ("'tea'", "0", None)]
    # The steps are not done again, and what is only looked at is not unwound.
    assert (
        (home.path / "ledger").read_text()
        == ledger
        == "price tea\nprice cake\nprice bun\nfinally\n"
    )


def test_a_failure_has_its_frames_and_opens_in_the_debugger(home: Home) -> None:
    ended = home.run("run", "--wal", "wal", "--id", "b", "app.py", "x" * 60, "y" * 50)
    assert ended.code == 1
    shown = step(home, "b", "--failure")
    (task,) = shown["tasks"]
    assert task["state"] == "failed"
    assert "1100 is too much" in task["error"]["message"]
    frame = task["frames"][-1]
    assert (frame["function"], frame["locals"]["total"]) == ("main", "1100")
    command = ("--app", "app.py", "--dir", "wal", "replay", "--step", "b", "--pdb")
    with home.start(*command, typed="p total\nq\n") as started:
        ended = started.end()
    assert "1100" in ended.out, ended
    assert ended.code == 0


LENIENT = """
from tiffany import spawn, wait

async def refuse(why):
    raise ValueError(why)

async def main():
    try:
        await wait(await spawn(refuse("caught")))
    except ValueError as error:
        caught = str(error)
    raise KeyError(f"after {caught}")
"""


def test_the_debugger_opens_at_the_failure_that_nobody_caught(home: Home) -> None:
    home.write("app.py", LENIENT)
    assert home.run("run", "--wal", "wal", "--id", "c", "app.py").code == 1
    shown = step(home, "c", "--failure")
    assert shown["line"]["tid"] == 1 and "KeyError" in shown["line"]["error"]["message"]
    lines = LENIENT.splitlines()
    for task in shown["tasks"]:
        file, _, line = task["spawned_at"].rpartition(":")
        wanted = "async def main" if task["tid"] == 1 else "await spawn("
        assert file.endswith("app.py") and wanted in lines[int(line) - 1], task
    command = ("--app", "app.py", "--dir", "wal", "replay", "--step", "c", "--pdb")
    with home.start(*command, typed="p 'it was ' + caught\nq\n") as started:
        ended = started.end()
    assert "it was caught" in ended.out and ended.code == 0, ended


def test_in_a_terminal_it_goes_where_it_is_told(home: Home) -> None:
    home.run("run", "--wal", "wal", "--id", "a", "app.py", "tea", "cake").ok()
    seat, terminal = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tiffany",
            "--app",
            "app.py",
            "--dir",
            "wal",
            "replay",
            "--step",
            "a",
        ],
        cwd=home.path,
        env=environment(NO_COLOR="1"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    # Back, the same again by Enter alone, to a record, to what is not there, to what is nothing, to the task's next record, and out.
    os.write(seat, b"b\n\n2\n99\nsideways\nt 1\nq\n")
    shown = bytearray()
    while True:
        try:
            piece = os.read(seat, 4096)
        except OSError:  # The end of a terminal.
            break
        if not piece:
            break
        shown += piece
    os.close(seat)
    assert process.wait(TIMEOUT_SECONDS) == 0
    text = shown.decode()
    last = len(records(home, "a"))
    seen = [int(number) for number in re.findall(r"record (\d+) of \d+", text)]
    assert seen == [last, last - 1, last - 2, 2, 3], text
    assert "TFY0115" in text and "`sideways` is nothing to do here" in text


def test_there_is_nothing_to_debug_in_a_run_that_did_not_fail(home: Home) -> None:
    home.run("run", "--wal", "wal", "--id", "a", "app.py", "tea").ok()
    ended = home.run("--app", "app.py", "--dir", "wal", "replay", "--step", "a", "--pdb")
    assert (ended.code, "TFY0082" in ended.err) == (1, True), ended


def test_check_and_try_tell_what_an_edit_breaks(home: Home) -> None:
    home.write("app.py", PROGRAM.replace("sleep(0.001)", "sleep(60)"))
    with home.start("run", "--wal", "wal", "--id", "c", "app.py", "tea"):
        while '"call":"sleep' not in home.run("--dir", "wal", "--json", "log", "c").out:
            pass
    app = ("--app", "app.py", "--dir", "wal")
    assert (
        home.run(*app, "replay", "--all").ok() == "1 run can continue with this program, 0 cannot\n"
    )
    edited = PROGRAM.replace("sleep(0.001)", "sleep(60)")
    home.write("app.py", edited.replace("total = 0\n", "total = await price('new')\n"))
    checked = home.run(*app, "replay", "--all")
    assert (checked.code, "TFY0081" in checked.err) == (1, True), checked
    assert "total = await price('new')" in checked.out
    tried = home.run(*app, "replay", "--ahead", "c")
    assert tried.code == 1
    assert "patched(" in tried.out, tried
    assert "TFY0036" in tried.err
