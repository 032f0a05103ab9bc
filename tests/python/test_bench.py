"""The benchmark as a program: what it writes, what it refuses, who may be missing, who ends whom."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tiffany_bench import __main__ as program
from tiffany_bench import bare, process, report
from tiffany_bench.harness import (
    Beside,
    Better,
    Contender,
    Figure,
    Figures,
    Measure,
    Missing,
    Mode,
    Of,
    OfBeside,
    OfBest,
    Sample,
    Target,
    take_turns,
)
from tiffany_bench.measures import MEASURES
from tiffany_bench.py_leak import Watch

PROGRAM = Path(__file__).parents[2] / "bench/python"
WITHOUT_LOG = {
    "py_yield": {"bare", "uvloop", "asyncio", "trio"},
    "py_await": {"uvloop", "asyncio", "trio"},
    "py_spawn_join": {"uvloop", "asyncio", "trio", "bare"},
    "py_depth50": {"bare"},
    "py_echo_64": {"uvloop", "asyncio", "trio"},
    "py_echo_1000": {"uvloop", "asyncio", "trio"},
    "py_leak": {"uvloop", "asyncio", "bare"},
}
DURABLE = ["py_w1", "py_w2", "py_w3", "py_embed"]
ALWAYS_THERE = {"asyncio", "bare"}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The program with these arguments."""
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_quick_run_writes_a_line_for_each_measure() -> None:
    done = bench("--quick", "--json", *WITHOUT_LOG)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["measure"] for line in lines] == list(WITHOUT_LOG)
    for line in lines:
        name, missing = line["measure"], line.get("not_measured", {})
        assert line["better"] in ("lower", "higher") and line["unit"]
        assert set(line["peers"]) == WITHOUT_LOG[name]
        assert not ALWAYS_THERE & set(missing)
        assert isinstance(line["tiffany"], float)
        for peer, figure in line["peers"].items():
            assert (figure is None) == (peer in missing), line
            assert (peer in line["spread"]) == (figure is not None), line
        if name != "py_leak":
            assert line["tiffany"] > 0
            assert all(f is None or f > 0 for f in line["peers"].values())
    assert lines[3]["depth_1"]["tiffany"] > 0
    assert lines[-1]["cycles"] == dict.fromkeys(lines[-1]["spread"], 0)


def test_our_durable_measures_work() -> None:
    done = bench("--quick", "--json", "--only", "tiffany", *DURABLE)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["measure"] for line in lines] == DURABLE
    assert all(line["tiffany"] > 0 and line["peers"] == {} for line in lines)
    assert lines[2]["begun"]["tiffany"] > 0


def test_a_quick_run_for_people_has_no_figures() -> None:
    done = bench("--quick", "--only", "bare", "py_yield", "py_depth50")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("tiffany ")
    assert done.stdout.splitlines()[2:] == [
        "py_yield       works: bare",
        "py_depth50     works: bare",
    ]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["py_nothing"], "there is no measure `py_nothing`; there are py_yield, py_await"),
        (["--slow"], "there is no option `--slow`"),
        (["--only"], "`--only` needs the name of a contender"),
        (["--only", "--json"], "`--only` needs the name of a contender"),
        (["--only", "nobody"], "there is no contender `nobody`; there are tiffany, bare"),
        (["--only", "dbos", "py_yield"], "`dbos` takes no part in py_yield"),
        (["--dir"], "`--dir` needs a directory"),
        (["--dir", "/no/such/place"], "there is no directory `/no/such/place`"),
    ],
)
def test_bad_arguments_end_with_code_2(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(arguments) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"bench/python: {why}")
    assert "usage: python bench/python" in told.err
    assert told.out == ""


def test_help_names_all_measures(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(measure.name in shown for measure in MEASURES)


def nothing(_mode: Mode, _directory: Path) -> Sample:
    """Never called here: a sample is taken by name, in another process."""
    raise AssertionError


def measure(*contenders: Contender, targets: tuple[Target, ...] = ()) -> Measure:
    """A measure with the name of a real one."""
    return Measure("py_yield", "a switch", "ns", Better.LOWER, targets, 3, contenders)


def test_who_is_not_installed_is_left_out_and_the_rest_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    absent = Contender("absent", nothing, needs=("no-such-package",))
    asked = program.Asked(mode=Mode.QUICK, json=True)
    assert program.take(asked, [measure(absent, Contender("bare", nothing))])
    line = json.loads(capsys.readouterr().out)
    assert line["not_measured"] == {
        "absent": "no no-such-package here: pip install -r bench/python/requirements.txt"
    }
    assert line["peers"]["absent"] is None and line["peers"]["bare"] > 0


def test_who_fails_is_told_of_and_the_code_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    asked = program.Asked(mode=Mode.QUICK, json=True)
    broken = Contender("broken", nothing)  # `py_yield` knows nobody of that name.
    assert not program.take(asked, [measure(broken, Contender("bare", nothing))])
    line = json.loads(capsys.readouterr().out)
    assert line["not_measured"]["broken"].startswith("ended with code 1: ValueError")
    assert line["peers"]["bare"] > 0


def test_who_does_not_answer_is_ended_with_all_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\nsh -c "sleep 90; true" "$0" &\nsleep 90\n')
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setitem(process.TIMEOUT, Mode.FULL, 0.5)
    one = Contender("bare", nothing)
    deadline = time.monotonic() + 60
    taken = process.sample(measure(one), one, Mode.FULL, tmp_path)
    assert taken == Missing("no answer within 0.5 s")
    assert time.monotonic() < deadline, "it was waited for"
    while _runs_somewhere(str(slow)):
        assert time.monotonic() < deadline, "a process of it is still there"
        time.sleep(0.01)


def test_contenders_take_turns_and_who_fails_is_not_asked_again() -> None:
    asked: list[str] = []

    def take(_: Measure, contender: Contender) -> Sample | Missing:
        asked.append(contender.name)
        return Missing("broken") if contender.name == "b" else Sample(len(asked))

    a, b, c = (Contender(name, nothing) for name in "abc")
    figures = take_turns(measure(a, b, c), Mode.FULL, take)
    assert asked == ["a", "b", "c", "a", "c", "a", "c"]
    assert [one.median() for one in figures] == [4, None, 5]
    assert [one.spread() for one in figures] == [(1, 6), None, (3, 7)]


@pytest.mark.parametrize(
    ("better", "target", "verdict"),
    [
        (Better.LOWER, Of("slow", 0.5), "at most 0.5 of slow: 0.50, reached"),
        (Better.LOWER, Of("slow", 0.4), "at most 0.4 of slow: 0.50, NOT reached"),
        (Better.LOWER, Of("gone", 0.4), "at most 0.4 of gone: not measured"),
        (Better.LOWER, OfBest(1.0), "at most 1 of the best peer here (fast): 2.00, NOT reached"),
        (Better.HIGHER, OfBest(0.5), "at least 0.5 of the best peer here (slow): 0.50, reached"),
        (Better.LOWER, Figure(9.0), "at most 9: 10.00, NOT reached"),
        (Better.HIGHER, Figure(9.0), "at least 9: 10.00, reached"),
        (Better.HIGHER, Beside("cycles", 0), "cycles at most 0: 8.00, NOT reached"),
        (Better.LOWER, OfBeside("cycles", 1.25), "at most 1.25 of its own cycles: 1.25, reached"),
    ],
)
def test_the_table_says_whether_a_target_is_reached(
    better: Better, target: Target, verdict: str
) -> None:
    figures = [
        Figures("tiffany", [Sample(10.0, {"cycles": 8.0})]),
        Figures("fast", [Sample(5.0)]),
        Figures("slow", [Sample(20.0)]),
        Figures("gone", missing=Missing("it is away")),
    ]
    shown = report.table(Measure("m", "what", "ns", better, (target,), 1, ()), figures)
    assert f"  target: {verdict}\n" in shown
    assert "  gone      not measured: it is away\n" in shown


def test_a_server_ends_when_nobody_is_left_to_end_it() -> None:
    # The parent starts a server, tells its number, and is gone without a word to it.
    parent = (
        "import os; from tiffany_bench.process import Child;"
        "child = Child('-m', 'tiffany_bench.echo_servers', 'asyncio');"
        "child.line(); print(child.pid, flush=True); os._exit(0)"
    )
    said = subprocess.check_output(
        [sys.executable, "-c", parent], text=True, timeout=60, env=process._environment()
    )
    deadline = time.monotonic() + 30
    while _lives(int(said)):
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        # Nobody may have asked for the code of one that is over.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_what_a_process_of_a_sample_complains_about_is_told() -> None:
    with (
        process.Child("-c", "raise OSError('no room')") as child,
        pytest.raises(RuntimeError, match="ended with code 1: OSError: no room"),
    ):
        child.line()
    assert not os.path.exists(f"/proc/{child.pid}")


def test_the_watch_sees_memory_that_stays_and_cycles() -> None:
    watch = Watch()
    try:
        watch.begin()
        kept = [bytes([number % 256]) * 4096 for number in range(15_000)]
        for _ in range(10):
            cycle: list[Any] = []
            cycle.append(cycle)
        del cycle
        sample = watch.end()
    finally:
        gc.enable()
    assert len(kept) == 15_000 and sample.value > 30
    assert sample.beside["cycles"] == 10


def test_the_bare_loop_calls_and_raises_through_its_stack() -> None:
    def deepest(number: int) -> Generator[Any, Any, int]:
        yield
        if number < 0:
            raise ValueError(number)
        return number * 2

    def middle(number: int) -> Generator[Any, Any, int]:
        value: int = yield deepest(number)
        return value + 1

    def main() -> Generator[Any, Any, list[object]]:
        task = yield bare.NewTask(middle(20))
        try:
            yield middle(-1)
        except ValueError as error:
            caught = error.args[0]
        later = yield bare.NewTask(middle(4))  # It has had one turn when it is waited for.
        values = [(yield bare.WaitTask(later)), (yield bare.WaitTask(task))]
        return [caught, *values, (yield middle(1)), (yield)]

    assert bare.run(main(), bare.StackTask) == [-1, 9, 41, 3, None]


def test_ended_from_outside_it_ends_its_samples_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), "--dir", str(tmp_path), "py_leak"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        while not list(tmp_path.glob("*/0-*")):
            assert running.poll() is None, "it ended before its first sample"
            time.sleep(0.01)
        time.sleep(0.3)  # The sample is on its way now, and would be for a minute.
        running.terminate()
        assert running.wait(timeout=30) == 143
    assert list(tmp_path.iterdir()) == []
    assert not _runs_somewhere(str(tmp_path))


def _runs_somewhere(argument: str) -> bool:
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if argument.encode() in line.read_bytes():
                return True
    return False
