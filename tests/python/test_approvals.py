"""Approvals: questions to people that wait over restarts and are decided once."""

from __future__ import annotations

import json
import os
import pty
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import tiffany
from command_kit import Home, environment
from tiffany import Runtime, approve, run, sleep, step, workflow
from tiffany.calls import Answer, Approve
from tiffany.durable import Approval, OpenApproval

_T = TypeVar("_T")
_LIMIT = 20.0


@dataclass
class Order:
    item: str
    price: int


@step
def book(text: str) -> str:
    return text


@workflow(name="refund")
async def refund(price: int) -> list[Any]:
    order = Order("tea", price)
    answer = await approve(f"Refund {price}?", ["pay", "half", "keep"], order)
    return [await book(answer.choice), answer.by, answer.why]


@workflow(name="hurried")
async def hurried(seconds: float) -> str:
    try:
        return (await approve("Now?", timeout=seconds)).choice
    except tiffany.errors.ApprovalTimedOutError:
        return "nobody"


def _until(what: Callable[[], _T]) -> _T:
    begun = time.monotonic()
    while not (found := what()):
        assert time.monotonic() - begun < _LIMIT, "it does not come"
        time.sleep(0.005)
    return found


def _asked(runtime: Runtime) -> OpenApproval:
    async def nap() -> None:
        await sleep(0.002)

    def look() -> list[OpenApproval]:
        runtime.run(nap())
        return runtime.approvals()

    return _until(look)[0]


def test_a_question_is_listed_and_decided_with_who_and_why(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        started = runtime.submit(refund, 40, id="refund-1")
        waiting = _asked(runtime)
        assert waiting.run == str(started.uuid)
        assert (waiting.run_id, waiting.tid, waiting.task) == ("refund-1", 1, None)
        assert waiting.question == "Refund 40?"
        assert waiting.choices == ("pay", "half", "keep")
        assert waiting.payload == Order("tea", 40)
        assert waiting.deadline is None
        with pytest.raises(tiffany.errors.BadChoiceError, match="`pay`, `half`, `keep`"):
            runtime.approve(waiting.id)
        with pytest.raises(tiffany.errors.NoSuchApprovalError):
            runtime.approve("nobody/1")
        decided = runtime.approve(waiting.id, "half", by="Ada", why="half full")
        assert (decided.choice, decided.by, decided.why) == ("half", "Ada", "half full")
        assert not decided.rejected
        assert decided.at is not None and decided.at >= waiting.since
        with pytest.raises(tiffany.errors.ApprovalDecidedError, match="Ada said `half`"):
            runtime.reject(waiting.id)
        assert runtime.approvals() == []
        assert runtime.wait(started) == ["half", "Ada", "half full"]


def test_it_waits_over_a_restart_and_is_decided_where_nobody_has_the_log(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        runtime.submit(refund, 40, id="refund-1")
        before = _asked(runtime)
    with tiffany.connect(tmp_path) as connection:
        assert connection.is_offline
        [waiting] = connection.approvals()
        assert waiting.id == before.id
        assert waiting.payload == Order("tea", 40)
        decided = connection.reject(waiting.id, why="no tea")
        assert decided.rejected and decided.uid is not None
        assert connection.approvals() == []
    with Runtime(wal=tmp_path) as runtime:
        started = runtime.submit(refund, 40, id="refund-1")
        assert runtime.wait(started) == ["keep", decided.by, "no tea"]


def test_a_thread_decides_for_a_run_without_a_log() -> None:
    runtime = Runtime()
    connection = runtime.handle

    def person() -> None:
        [waiting] = _until(connection.approvals)
        connection.reject(waiting.id, by="Ada", why="never")

    async def main() -> None:
        thread = threading.Thread(target=person)
        thread.start()
        answer = await approve("Sure?")
        assert (answer.choice, answer.rejected) == ("no", True)
        answer.granted()

    with pytest.raises(tiffany.errors.RejectedError, match="Ada said `no`: never"):
        runtime.run(main())
    runtime.close()


def test_nobody_answering_in_time_is_an_error_that_can_be_caught(tmp_path: Path) -> None:
    assert run(hurried(0.05), wal=tmp_path, id="soon") == "nobody"
    assert issubclass(tiffany.errors.ApprovalTimedOutError, TimeoutError)


def test_a_generator_asks_too() -> None:
    def main() -> Any:
        answer = yield Approve("Sure?")
        return answer

    def yes(call: Any, tid: int) -> Any:
        if isinstance(call, Approve):
            assert (call.question, call.choices, call.payload) == ("Sure?", ["yes", "no"], None)
            assert call.timeout is None
            return Answer(Approval("yes", "a test"))
        return None

    assert run(main(), handlers=[yes]) == Approval("yes", "a test")


def test_what_makes_no_sense_is_refused_where_it_is_written() -> None:
    rows: list[tuple[list[Any], str]] = [
        ([" "], "the question is empty"),
        (["Ship?", []], "at least two"),
        (["Ship?", ["ship"]], "at least two"),
        (["Ship?", ["ship", "ship"]], "twice"),
        (["Ship?", "yes"], "a list of texts"),
        ([7], "`question` is a text"),
    ]
    for arguments, part in rows:
        with pytest.raises(tiffany.errors.BadArgumentError, match=part):
            Approve(*arguments)
    with pytest.raises(tiffany.TiffanyError):
        Approve("Ship?", timeout=-1)
    with pytest.raises(tiffany.TiffanyError):
        Approve("Ship?", payload=object())


def test_a_call_reads_as_it_was_written() -> None:
    async def main() -> str:
        call = Approve("Ship?", timeout=2)
        text = repr(call)
        with pytest.raises(tiffany.errors.ApprovalTimedOutError):
            await Approve("Ship?", timeout=0)
        assert call.timeout == 2.0
        return text

    with pytest.warns(RuntimeWarning, match="never awaited"):
        assert run(main()) == "Approve('Ship?')"


APP = """
from tiffany import approve, step, workflow


@step
def pay(amount: int) -> str:
    return f"{amount} EUR"


@workflow(name="refund")
async def refund(amount: int) -> str:
    answer = await approve(f"Refund {amount} EUR?", ["all", "none"], {"amount": amount})
    return await pay(amount if answer.choice == "all" else 0)
"""


def test_the_command_submits_lists_decides_and_denies(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("app.py", APP)
    log = ("--dir", "log")
    submit = (*log, "--app", "app.py", "submit", "refund", "--input", '{"amount": 40}', "--wait")
    with home.start(*submit, "--id", "r-1", typed="") as denied:
        ended = denied.end()
    assert (ended.code, ended.out) == (1, '"0 EUR"\n'), ended
    assert "TFY0186" in ended.err
    with home.start(*submit, "--id", "r-2", "--approvals", "wait", typed="") as waiting:
        _until(lambda: '"r-2"' in home.run(*log, "approve", "--json").out)
        assert "r-2" in home.run(*log, "ls", "--active").ok()
        decided = home.run(*log, "approve", "r-2", "--because", "clear", "--as", "Ada").ok()
        assert "`all`, by Ada: clear" in decided
        ended = waiting.end()
    assert (ended.code, ended.out) == (0, '"40 EUR"\n'), ended
    # So that a script does not hang, also where the run is shown, and where a file is run.
    with home.start(*submit[:-1], "--id", "r-3", "--follow", typed="") as denied:
        ended = denied.end()
    assert ended.code == 1 and "TFY0186" in ended.err, ended
    [decision] = json.loads(home.run(*log, "show", "r-3", "--json").ok())["decisions"]
    assert decision["answer"]["choice"] == "none", decision
    assert decision["answer"]["why"].startswith("no person could be asked"), decision
    watched = home.run(*log, "watch", "r-2").ok()
    assert watched.endswith('"40 EUR"\n')
    assert "by Ada (uid" in home.run(*log, "show", "r-2").ok()


RUN = """
from tiffany import approve


async def main() -> str:
    answer = await approve("Refund 40 EUR?", ["all", "half", "none"])
    return f"{answer.choice} by {answer.by}: {answer.why}"
"""


@pytest.mark.parametrize("log", [(), ("--wal", "log", "--id", "r-1")])
def test_a_program_that_asks_where_nobody_is_there_is_denied_and_ends(
    tmp_path: Path, log: tuple[str, ...]
) -> None:
    home = Home(tmp_path)
    home.write("app.py", RUN)
    with home.start("run", *log, "app.py", typed="") as denied:
        ended = denied.end()
    assert ended.code == 1, ended
    assert ended.out.startswith("none by ") and "no person could be asked" in ended.out, ended
    assert "denied, because no person can be asked: Refund 40 EUR?" in ended.err, ended
    assert "error[TFY0186]: 1 question of the run denied" in ended.err, ended
    if log:
        shown = home.run("--dir", "log", "show", "r-1").ok()
        assert '"Refund 40 EUR?": none, by ' in shown, shown
    ended = home.run("run", "--approvals", "ask", "app.py")
    assert ended.code == 2 and "takes a terminal" in ended.err, ended


def test_who_lets_others_decide_waits_for_them(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("app.py", RUN)
    run = ("run", "--wal", "log", "--id", "r-1", "--approvals", "wait", "app.py")
    with home.start(*run, typed="") as waiting:
        _until(lambda: '"r-1"' in home.run("--dir", "log", "approve", "--json").out)
        home.run("--dir", "log", "approve", "r-1", "--choice", "half", "--as", "Ada").ok()
        ended = waiting.end()
    assert (ended.code, ended.out) == (0, "half by Ada: None\n"), ended


def test_who_sits_at_the_terminal_is_asked(tmp_path: Path) -> None:
    Home(tmp_path).write("app.py", RUN)
    words = [sys.executable, "-m", "tiffany", "run", "app.py"]
    pid, seat = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(words[0], words, environment())
    seen = ""

    def until(wanted: str) -> None:
        nonlocal seen
        while wanted not in seen:
            seen += os.read(seat, 1024).decode()

    try:
        until("all / half / none (Enter leaves it open)? ")
        os.write(seat, b"perhaps\n")
        until("`perhaps` is none of its choices")
        os.write(seat, b"h because so\n")
        until("decided: `half`, because so")
        until(": so")
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(seat)
    assert os.waitstatus_to_exitcode(status) == 0, seen
