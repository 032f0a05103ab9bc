"""Runs of state machines: a log that does not grow, and states that are what they were after a restart."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import Ledger, kill_until_over, records, run_files, types
from tiffany import Done, Runtime, state_machine, step, workflow
from tiffany.calls import Now, ReceiveMessage, Sleep, Spawn
from tiffany.errors import BadArgumentError, NoSnapshotError, NotACallError, PausedRunWarning
from tiffany.history import TimeTravel, check, export

DONE: list[str] = []


@step
def double(number: int) -> int:
    DONE.append(f"double {number}")
    if number == 13:
        raise ValueError("thirteen")
    return number * 2


@state_machine(name="inbox agent")
@dataclass
class Inbox:
    """Doubles what comes, and remembers when and what."""

    most: int
    doing: int | None = None
    seen: list[tuple[int, str]] = field(default_factory=list)
    began: float = field(default=0.0, init=False)

    def wants(self) -> Any:
        if not self.began:
            return Now()
        if self.doing is not None:
            return double(self.doing)
        return Done(self.seen) if len(self.seen) == self.most else ReceiveMessage("number")

    def take(self, answer: Any) -> None:
        if not self.began:
            self.began = answer
        elif self.doing is None:
            self.doing = answer
        else:
            self.seen.append((self.doing, str(answer)))
            self.doing = None

    def failed(self, error: Exception) -> None:
        assert self.doing is not None
        self.seen.append((self.doing, repr(error)))
        self.doing = None


def test_a_state_machine_takes_what_it_wants_and_what_fails(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(Inbox, 3, id="inbox-1")
        for number in (1, 13, 2):
            runtime.send(run, "number", number)
        assert runtime.wait(run) == [(1, "2"), (13, "ValueError('thirteen')"), (2, "4")]
    lines = records(tmp_path)
    assert lines[0]["function"] == "inbox agent"
    # The line is that of the class.
    assert {line["at"].rsplit(":", 1)[0] for line in lines if "at" in line} == {__file__}


def test_after_a_snapshot_the_state_is_what_it_was(tmp_path: Path) -> None:
    DONE.clear()
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(Inbox, 2, id="inbox-1")
        runtime.send(run, "number", 1)
        while not (DONE and types_now(runtime, run, tmp_path)[-1] == "TaskYield"):
            runtime.run(nap())
        runtime.snapshot(run)
        runtime.flush()
    assert types(tmp_path)[:2] == ["RunStart", "Snapshot"]
    first = records(tmp_path)[0]
    assert first["gen"] == 2 and first["continued"]["snapshot"]
    with Runtime(wal=tmp_path) as runtime:
        runtime.send(run, "number", 2)
        assert runtime.wait(run) == [(1, "2"), (2, "4")]
    # What was before the snapshot was not done again.
    assert DONE == ["double 1", "double 2"]


def test_it_is_looked_at_and_checked_like_any_run(tmp_path: Path) -> None:
    DONE.clear()
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(Inbox, 2, id="inbox-1")
        runtime.send(run, "number", 1)
        while not (DONE and types_now(runtime, run, tmp_path)[-1] == "TaskYield"):
            runtime.run(nap())
    with TimeTravel(run, wal=tmp_path) as travel:
        seen = []
        for number in range(1, len(travel) + 1):
            (task,) = travel.at(number).tasks
            (frame,) = task.frames
            assert frame.function == "inbox agent"
            seen.append((frame.locals["doing"], frame.locals["seen"]))
        assert seen[0] == ("None", "[]")
        assert ("1", "[]") in seen
        assert seen[-1] == ("None", "[(1, '2')]")
    (checked,) = check(tmp_path)
    assert (checked.id, checked.error) == ("inbox-1", None)
    assert DONE == ["double 1"]


async def nap() -> None:
    await Sleep(0.005)


def naps() -> Any:
    yield


def types_now(runtime: Runtime, run: tiffany.durable.Run[Any], wal: Path) -> list[str]:
    """The types of the records of a run that goes on."""
    runtime.flush()
    document = export(run, wal=wal, format="json")
    return [record["type"] for record in document["records"]]


@state_machine(name="sleeper")
@dataclass
class Sleeper:
    naps: int

    def wants(self) -> Any:
        return Sleep(60) if self.naps else Done("awake")

    def take(self, answer: None) -> None:
        self.naps -= 1


def test_a_sleep_ends_when_it_would_have(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(Sleeper, 1, id="sleeper-1")
        runtime.snapshot(run)
    began = datetime.fromisoformat(records(tmp_path)[0]["continued"]["since"])
    # A sleep that began anew would be longer by this.
    time.sleep(1)
    with Runtime(wal=tmp_path, clock="virtual") as runtime:
        assert runtime.wait(run) == "awake"
    woken = next(record for record in records(tmp_path) if record["type"] == "TaskWake")
    slept = datetime.fromisoformat(woken["ts"]) - began
    assert 60 <= slept.total_seconds() < 60.9


@state_machine(name="long agent")
@dataclass
class Long:
    until: int
    count: int = 0

    def wants(self) -> Any:
        return Done(self.count) if self.count == self.until else Sleep(0.001)

    def take(self, answer: None) -> None:
        self.count += 1


def test_the_log_of_many_calls_stays_short(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path, snapshot_every=100, clock="virtual") as runtime:
        assert runtime.wait(runtime.submit(Long, 5_000, id="long-1")) == 5_000
    (file,) = run_files(tmp_path)
    first = records(tmp_path)[0]
    assert first["gen"] > 20
    assert len(records(tmp_path)) < 300
    assert file.stat().st_size < 60_000


@step
def work(number: int) -> int:
    time.sleep(0 if number < 3 else 0.1)
    return number


@state_machine(name="shifts")
@dataclass
class Shifts:
    """Works and sleeps in turn."""

    worked: int = 0
    sleeps: bool = False

    def wants(self) -> Any:
        if self.worked == 6:
            return Done(self.worked)
        return Sleep(0.01) if self.sleeps else work(self.worked)

    def take(self, answer: Any) -> None:
        self.worked += not self.sleeps
        self.sleeps = not self.sleeps


async def moment() -> None:
    await tiffany.sleep(0.06)


@pytest.mark.parametrize("every", [4, 5, 6])
def test_a_run_whose_generation_began_in_a_sleep_is_resumed(every: int, tmp_path: Path) -> None:
    for _ in range(4):
        with Runtime(wal=tmp_path, snapshot_every=every) as runtime:
            runtime.submit(Shifts, id="shifts")
            runtime.run(moment())
            assert runtime.paused() == []
    with Runtime(wal=tmp_path, snapshot_every=every) as runtime:
        assert runtime.wait(runtime.submit(Shifts, id="shifts")) == 6


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_between_snapshots_it_goes_on_from_the_last_one(seed: int, tmp_path: Path) -> None:
    out = kill_until_over("programs/machine.py", tmp_path, "150", seed=seed)
    assert out == f"{sum(range(151))}\n"
    keys: dict[int, set[str]] = {}
    for line in Ledger(tmp_path / "ledger").read():
        number, key = line.split()
        keys.setdefault(int(number), set()).add(key)
    assert sorted(keys) == list(range(1, 151))
    assert all(len(of) == 1 for of in keys.values())
    assert records(tmp_path / "wal")[0]["gen"] > 5


@state_machine(name="grows")
@dataclass
class Grows:
    number: int

    def wants(self) -> Any:
        return ReceiveMessage("go")

    def take(self, answer: Any) -> None:
        self.number = answer


def test_a_newer_class_reads_what_an_older_one_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(Grows, 7, id="grows-1")
        runtime.snapshot(run)

    @dataclass
    class Newer:
        number: int
        word: str = "new"

        def wants(self) -> Any:
            return ReceiveMessage("go") if self.number < 100 else Done((self.number, self.word))

        def take(self, answer: Any) -> None:
            self.number += answer

    @dataclass
    class Other:
        other: int

        wants, take = Newer.wants, Newer.take

    registered = tiffany.durable._workflows._REGISTERED
    monkeypatch.setitem(tiffany.durable._state_machines._NAMES, Newer, "grows")
    monkeypatch.setitem(tiffany.durable._state_machines._NAMES, Other, "grows")
    monkeypatch.setitem(registered, "grows", Other)
    with pytest.warns(PausedRunWarning, match="TFY0127"), Runtime(wal=tmp_path) as runtime:
        assert [paused.code for paused in runtime.paused()] == ["TFY0127"]
    monkeypatch.delitem(registered, "grows")
    with pytest.warns(PausedRunWarning), Runtime(wal=tmp_path) as runtime:
        assert "`grows`" in runtime.paused()[0].error
    monkeypatch.setitem(registered, "grows", Newer)
    with Runtime(wal=tmp_path) as runtime:
        runtime.send(run, "go", 100)
        assert runtime.wait(run) == (107, "new")


@state_machine(name="wrong")
@dataclass
class Wrong:
    which: str

    def wants(self) -> Any:
        match self.which:
            case "spawn":
                return Spawn(naps())
            case "text":
                return "sleep"
        raise ZeroDivisionError

    def take(self, answer: Any) -> None:
        raise AssertionError("it is given nothing")


def test_what_a_state_machine_cannot_want(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        with pytest.raises(NotACallError, match="cannot want `Spawn`"):
            runtime.wait(runtime.submit(Wrong, "spawn", id="a"))
        with pytest.raises(NotACallError, match=r"`wrong.wants` returned 'sleep'; return a call"):
            runtime.wait(runtime.submit(Wrong, "text", id="b"))
        with pytest.raises(ZeroDivisionError):
            runtime.wait(runtime.submit(Wrong, "raises", id="c"))
        with pytest.raises(BadArgumentError, match="which"):
            runtime.submit(Wrong, id="d")


def test_what_is_no_state_machine(tmp_path: Path) -> None:
    with pytest.raises(BadArgumentError, match="is not a dataclass"):
        state_machine(int)

    @dataclass
    class Half:
        def wants(self) -> Any:
            return Done(1)

    with pytest.raises(BadArgumentError, match="has no method `take`"):
        state_machine(Half)
    with pytest.raises(BadArgumentError, match="did you mean `name`"):
        state_machine(nmae="x")  # type: ignore[call-overload]
    with pytest.raises(BadArgumentError, match="two workflows are called 'sleeper'"):
        state_machine(name="sleeper")(Inbox)

    @workflow(name="no machine")
    def plain() -> Any:
        yield ReceiveMessage("go")

    with Runtime(wal=tmp_path) as runtime:
        with pytest.raises(NoSnapshotError, match="not a serializable state machine"):
            runtime.snapshot(runtime.submit(plain, id="plain-1"))
        with pytest.raises(BadArgumentError):
            runtime.submit(Half, id="half-1")  # type: ignore[call-arg, arg-type]
    with pytest.raises(BadArgumentError, match="`snapshot_every` is a whole number"):
        Runtime(wal=tmp_path, snapshot_every=-1)
    assert repr(Done([1])) == "Done([1])"
