"""The threat: a rule or a call takes a run that is still needed, leaves one that should go, or does not say what it did."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from durable_kit import run_files, wait_for
from tiffany import Runtime, TiffanyError, connect, step, workflow
from tiffany.calls import ReceiveMessage
from tiffany.durable import Retention, Run
from tiffany.errors import (
    BadArgumentError,
    LogFailedError,
    NeededByForkError,
    NoSuchRunError,
    NotOverError,
    RunCompactedError,
    RunRemovedError,
    TaskCancelledError,
    UnreachableError,
)
from tiffany.history import TimeTravel
from tiffany.retention import Collected, Compacted

DONE: list[str] = []


@step
def lengthen(text: str, times: int) -> str:
    DONE.append(text)
    return text * times


@workflow(name="writes")
async def writes(text: str, times: int = 10) -> int:
    """So many records that compacting saves something; with many times, a blob that they name."""
    for _ in range(10):
        await lengthen(text, 1)
    return len(await lengthen(text, times))


@workflow(name="breaks")
async def breaks(text: str) -> None:
    await lengthen(text, 1)
    raise ValueError(text)


@workflow(name="listens")
async def listens() -> Any:
    return await ReceiveMessage("word")


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    DONE.clear()
    return tmp_path / "wal"


@pytest.fixture
def runtime(wal: Path) -> Iterator[Runtime]:
    with Runtime(wal=wal) as runtime:
        yield runtime


def finished(runtime: Runtime, *ids: str, times: int = 10) -> list[Run[int]]:
    """Runs that are over, one after the other."""
    runs = []
    for id in ids:
        runs.append(runtime.submit(writes(id, times), id=id))
        runtime.wait(runs[-1])
    return runs


def written(wal: Path, *ids: str, times: int = 10) -> list[Run[int]]:
    """The same, and their files and blobs are where they belong."""
    with Runtime(wal=wal) as runtime:
        runs = finished(runtime, *ids, times=times)
    with Runtime(wal=wal):
        return runs


def sizes(wal: Path) -> dict[str, int]:
    return {file.stem.split(".")[0]: file.stat().st_size for file in run_files(wal)}


def ids(runs: list[Any]) -> list[str]:
    return [run.id for run in runs]


def blobs(wal: Path) -> int:
    return len(list((wal / "wal" / "blobs").iterdir()))


def test_a_removed_run_is_gone_and_its_id_runs_nothing_again(runtime: Runtime, wal: Path) -> None:
    (run,) = finished(runtime, "a")
    done = list(DONE)
    runtime.remove(run)
    # The file goes when the index has it.
    runtime.flush()
    wait_for(lambda: run_files(wal) == [])
    for again in (
        lambda: runtime.submit(writes("a", 10), id="a"),
        lambda: runtime.wait(run),
        lambda: runtime.remove("a"),
        lambda: runtime.compact(run),
        lambda: runtime.fork(run.uuid, 1),
    ):
        with pytest.raises(RunRemovedError) as raised:
            again()
        assert raised.value.code == "TFY0130"
    runtime.close()
    with Runtime(wal=wal) as later, pytest.raises(RunRemovedError, match="the id `a`"):
        later.run(writes("a", 10), id="a")
    assert done == DONE


def test_a_compacted_run_gives_its_outcome_and_nothing_else(wal: Path) -> None:
    a, b = written(wal, "a", "b")
    before = sum(sizes(wal).values())
    with Runtime(wal=wal) as runtime:
        done = runtime.compact(a, "b", a.uuid)
        assert (done.runs, done.unchanged, done.refused) == ([a.uuid, b.uuid], [], [])
        assert runtime.wait(a) == 10
        assert runtime.submit(writes("a", 10), id="a") == a
        for look in (lambda: runtime.fork(a, 2), lambda: TimeTravel(a, wal=wal)):
            with pytest.raises(RunCompactedError) as raised:
                look()
            assert raised.value.code == "TFY0131"
        assert runtime.compact(b, a) == Compacted([], [b.uuid, a.uuid], [], 0)
        assert runtime.compact() == Compacted([], [], [], 0)
    with Runtime(wal=wal):
        after = sum(sizes(wal).values())
    assert 0 < after < before / 4
    assert abs(before - after - done.bytes) < 200


def test_what_is_not_over_or_not_there_is_refused(runtime: Runtime) -> None:
    live = runtime.submit(listens, id="live")
    (over,) = finished(runtime, "over")
    with pytest.raises(NotOverError) as raised:
        runtime.remove(live)
    assert raised.value.code == "TFY0132"
    with pytest.raises(NotOverError):
        runtime.compact(over, live)
    for call in (runtime.remove, runtime.compact):
        with pytest.raises(NoSuchRunError):
            call("nobody")
        with pytest.raises(NoSuchRunError):
            call(uuid.uuid4())
    # Nothing happened to those that were named beside them, and rules do not touch what goes on.
    assert ids(runtime.prune(Retention(keep=0), dry_run=True).removed) == ["over"]
    assert ids(runtime.prune(Retention(keep=0)).removed) == ["over"]
    runtime.send(live, "word", "hello")
    assert runtime.wait(live) == "hello"


@pytest.fixture
def five(wal: Path) -> Iterator[Runtime]:
    """A log with a, b and c, which completed, d, which failed, and e, which was cancelled, in this order."""
    with Runtime(wal=wal) as runtime:
        finished(runtime, "a", "b", "c")
        with pytest.raises(ValueError, match="d"):
            runtime.run(breaks("d"), id="d")
        cancelled = runtime.submit(listens, id="e")
        runtime.flush()
        runtime.cancel(cancelled)
        with pytest.raises(TaskCancelledError):
            runtime.wait(cancelled)
    with Runtime(wal=wal):
        pass
    with Runtime(wal=wal) as runtime:
        yield runtime


def test_each_part_of_a_rule_chooses_runs(five: Runtime, wal: Path) -> None:
    def would(**parts: Any) -> list[tuple[str, str]]:
        pruned = five.prune(Retention(**parts), dry_run=True)
        assert pruned.compacted == []
        return [(run.id, run.why) for run in pruned.removed]

    everything = [(id, "age") for id in "abcde"]
    assert would() == []
    assert would(older_than=0) == would(older_than=timedelta()) == everything
    assert would(older_than=3600) == would(older_than=timedelta(hours=1)) == []
    assert would(keep=5) == would(keep=9, older_than=float("inf")) == []
    assert would(keep=4) == [("a", "count")]
    assert would(keep=4, older_than=0) == everything
    assert would(keep=1, only="completed") == [("a", "count"), ("b", "count")]
    assert would(keep=0, only=("cancelled", "failed")) == [("d", "count"), ("e", "count")]
    total = sum(sizes(wal).values())
    assert would(max_bytes=total) == []
    assert would(max_bytes=total - 1) == [("a", "size")]
    # A blob counts for the run that names it.
    finished(five, "f", times=100_000)
    assert would(max_bytes=100_000) == [(id, "size") for id in "abcdef"]


def test_what_is_told_of_a_run_is_true(five: Runtime, wal: Path) -> None:
    now = datetime.now(UTC)
    removed = five.prune(Retention(keep=0), dry_run=True).removed
    assert {str(run.run): run.bytes for run in removed} == sizes(wal)
    assert [run.outcome for run in removed] == [*["completed"] * 3, "failed", "cancelled"]
    assert all(now - timedelta(minutes=5) < run.ended < now for run in removed)
    compacted = five.prune(Retention(compact_after=0, only="completed"), dry_run=True)
    assert (ids(compacted.compacted), compacted.removed) == (["a", "b", "c"], [])
    later = five.prune(Retention(compact_after=3600))
    assert (later.compacted, later.removed, later.bytes) == ([], [], 0)


@workflow(name="hardly")
async def hardly() -> None:
    pass


def test_a_dry_run_changes_nothing_and_tells_what_happens_then(wal: Path) -> None:
    written(wal, "a", "b", "c", times=20_000)
    with Runtime(wal=wal) as runtime:
        dry_run_and_then(runtime, wal)


def dry_run_and_then(runtime: Runtime, wal: Path) -> None:
    rules = Retention(keep=2), Retention(compact_after=0)
    before = {file: file.read_bytes() for file in run_files(wal)}
    would = runtime.prune(*rules, dry_run=True)
    assert {file: file.read_bytes() for file in run_files(wal)} == before
    assert (ids(would.removed), ids(would.compacted)) == (["a"], ["b", "c"])
    assert would.bytes == would.removed[0].bytes
    assert would.collected == Collected(0, 0, 0)
    assert blobs(wal) == 3
    did = runtime.prune(*rules)
    assert (did.removed, did.compacted) == (would.removed, would.compacted)
    assert (did.kept, did.refused) == ([], [])
    assert did.bytes > would.bytes
    assert (did.collected.blobs, did.collected.damaged) == (3, 0)
    assert did.collected.bytes > 3 * 20_000
    assert blobs(wal) == 0
    # What is compacted already, or too short to save anything, is not told again.
    again = runtime.prune(*rules)
    assert (again.removed, again.compacted, again.bytes) == ([], [], 0)
    runtime.run(hardly(), id="hardly")
    assert ids(runtime.prune(Retention(compact_after=0), dry_run=True).compacted) == ["hardly"]
    assert runtime.prune(Retention(compact_after=0)).compacted == []


def test_blobs_of_a_removed_run_go_when_they_are_asked_for(wal: Path) -> None:
    a, b = written(wal, "a", "b", times=20_000)
    with Runtime(wal=wal) as runtime:
        runtime.remove(a)
        runtime.flush()
        assert blobs(wal) == 2
        assert runtime.collect_blobs().blobs == 1
        assert runtime.collect_blobs() == Collected(0, 0, 0)
        assert blobs(wal) == 1
        assert runtime.wait(b) == 20_000


def test_what_an_unfinished_fork_needs_is_kept_and_said(runtime: Runtime, wal: Path) -> None:
    parent = runtime.submit(listens, id="parent")
    runtime.flush()
    with TimeTravel(parent, wal=wal) as travel:
        last = len(travel)
    runtime.send(parent, "word", "parent")
    runtime.wait(parent)
    fork = runtime.fork(parent, last, id="fork")
    (other,) = finished(runtime, "other")
    with pytest.raises(NeededByForkError) as raised:
        runtime.remove(parent)
    assert raised.value.code == "TFY0133"
    pruned = runtime.prune(Retention(keep=0))
    assert ids(pruned.removed) == ["other"]
    (kept,) = pruned.kept
    assert (kept.run.run, kept.run.why, kept.fork) == (parent.uuid, "count", fork.uuid)
    assert runtime.wait(parent) == "parent"
    runtime.send(fork, "word", "fork")
    assert runtime.wait(fork) == "fork"
    assert ids(runtime.prune(Retention(keep=1)).removed) == ["parent"]
    with pytest.raises(RunRemovedError):
        runtime.wait(other)


@workflow(name="notes")
async def notes() -> None:
    DONE.append(await ReceiveMessage("word"))


def test_runs_go_on_while_others_are_pruned(runtime: Runtime) -> None:
    live = runtime.submit(notes, id="live")
    finished(runtime, "a", "b")
    DONE.clear()
    runtime.send(live, "word", "hello")
    assert DONE == []
    assert ids(runtime.prune(Retention(keep=0, older_than=0)).removed)[:2] == ["a", "b"]
    assert DONE == ["hello"]


def test_from_outside(wal: Path) -> None:
    with Runtime(wal=wal) as runtime:
        live = runtime.submit(listens, id="live")
        finished(runtime, "a", "b", "c", times=20_000)
        handle, told = runtime.handle, list[Any]()
        with pytest.raises(UnreachableError):
            handle.prune(Retention(keep=0))

        def elsewhere() -> None:
            try:
                with connect(wal) as connection:
                    told.append(connection.is_offline)
                    told.append(ids(connection.prune(Retention(keep=2), dry_run=True).removed))
                    told.append(ids(connection.prune(Retention(keep=2)).removed))
                with pytest.raises(NotOverError):
                    handle.remove(live)
                handle.remove("b")
                told.append(handle.collect_blobs().blobs)
                told.append(len(handle.compact("c").runs))
            finally:
                handle.send(live, "word", "done")

        thread = threading.Thread(target=elsewhere)
        thread.start()
        assert runtime.wait(live) == "done"
        thread.join()
        assert told == [False, ["a"], ["a"], 1, 1]
        for id in "ab":
            with pytest.raises(RunRemovedError):
                runtime.wait(id)
        assert runtime.wait("c") == 20_000


def test_where_nobody_has_the_log(wal: Path) -> None:
    written(wal, "a", "b", "c", times=20_000)
    with connect(wal) as connection:
        assert connection.is_offline
        connection.remove("c")
        assert len(connection.compact("b").runs) == 1
        pruned = connection.prune(Retention(keep=0))
        assert ids(pruned.removed) == ["a", "b"]
        assert pruned.collected.blobs == 3
        with pytest.raises(RunRemovedError):
            connection.remove("a")
    assert run_files(wal) == []
    with pytest.raises(TiffanyError, match="closed"):
        connection.prune(Retention(keep=0))


def test_a_damaged_run_is_left_and_told(wal: Path) -> None:
    with Runtime(wal=wal) as runtime:
        a, b = finished(runtime, "a", "b")
    with Runtime(wal=wal):
        pass  # From now on only the files of the runs have their records.
    file = wal / "wal" / f"{a.uuid}.wal"
    text = file.read_text()
    file.write_text(text[: len(text) // 2] + "?" + text[len(text) // 2 + 1 :])
    with connect(wal) as connection:
        done = connection.compact(a, b)
        assert done.runs == [b.uuid]
        (refused,) = done.refused
        assert refused.run == a.uuid
        assert isinstance(refused.error, LogFailedError)
        assert "is damaged" in str(refused.error)


def is_compacted(run: Run[Any], wal: Path) -> bool:
    try:
        TimeTravel(run, wal=wal).close()
    except RunCompactedError:
        return True
    return False


def test_a_runtime_keeps_its_rules_by_itself(wal: Path) -> None:
    rules = (Retention(keep=1, only="completed"), Retention(only="failed", compact_after=0))
    with Runtime(
        wal=wal, retention=iter(rules), retention_every=timedelta(seconds=0.02)
    ) as runtime:
        live = runtime.submit(listens, id="live")
        old, new = finished(runtime, "old", "new")
        broken = runtime.submit(breaks("b" * 1_000), id="broken")
        with pytest.raises(ValueError, match="bbb"):
            runtime.wait(broken)
        handle = runtime.handle

        def elsewhere() -> None:
            try:
                wait_for(lambda: not (wal / "wal" / f"{old.uuid}.wal").exists())
                wait_for(lambda: is_compacted(broken, wal))
            finally:
                handle.send(live, "word", "seen")

        thread = threading.Thread(target=elsewhere)
        thread.start()
        assert runtime.wait(live) == "seen"
        thread.join()
        assert runtime.wait(new) == 30
        with pytest.raises(RunRemovedError):
            runtime.wait(old)
        with pytest.raises(RunCompactedError):
            runtime.fork(broken, 2)
        began = time.monotonic()
    assert time.monotonic() - began < 5, "it ends although its rules are looked at all the time"


def test_a_rule_is_a_value() -> None:
    rule = Retention(only=["failed", "completed", "failed"], keep=3)
    assert rule == Retention(keep=3, only=("completed", "failed"))
    assert len({rule, Retention(keep=3, only=("completed", "failed")), Retention(keep=4)}) == 2
    with pytest.raises(AttributeError):
        rule.keep = 4  # type: ignore[misc]


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Retention(older_than=-1), "`older_than` of a Retention is a number of seconds"),
    (lambda: Retention(older_than=timedelta(-1)), "`older_than` of a Retention is a number of"),
    (lambda: Retention(compact_after=cast(Any, "1d")), "`compact_after` of a Retention is a"),
    (lambda: Retention(compact_after=float("nan")), "`compact_after` of a Retention is a"),
    (lambda: Retention(keep=-1), "`keep` of a Retention is a whole number from 0"),
    (lambda: Retention(keep=cast(Any, 1.5)), "`keep` of a Retention is a whole number.*not 1.5"),
    (lambda: Retention(max_bytes=2**64), "`max_bytes` of a Retention is a whole number"),
    (lambda: Retention(max_bytes=True), "`max_bytes` of a Retention is a whole number.*not True"),
    (lambda: Retention(only=cast(Any, "live")), "`only` of a Retention has no 'live'.*\"failed\""),
    (lambda: Retention(only=cast(Any, ["failed", 3])), "`only` of a Retention has no 3"),
    (lambda: Retention(only=cast(Any, 3)), "`only` is a list, not 3"),
    (lambda: Runtime(retention=[Retention(keep=1)]), "there is none.*give `wal` too"),
    (lambda: Runtime(wal="x", retention=cast(Any, Retention())), "`retention` is a list, not Ret"),
    (lambda: Runtime(wal="x", retention=cast(Any, [3])), "is a Retention, not 3"),
    (lambda: Runtime(wal="x", retention_every=0), "`retention_every` is 0.001 seconds or more"),
    (lambda: Runtime(wal="x", retention_every=-1), "`retention_every` is a number of seconds"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_what_is_wrong_with_a_rule_is_named(
    call: Callable[[], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadArgumentError, match=message) as raised:
        call()
    assert "TFY0032" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_with_a_call_is_named(runtime: Runtime) -> None:
    given = cast(Any, runtime)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: given.prune(), "no rule.*write prune"),
        (lambda: given.prune([Retention()]), "is a Retention, not"),
        (lambda: given.prune(Retention(), dry_run=3), "`dry_run` is True or False, not 3"),
        (lambda: given.remove(3), "is not a run; give a Run"),
        (lambda: given.compact(["a"]), "is not a run; give a Run"),
    ]
    for call, message in calls:
        with pytest.raises(BadArgumentError, match=message):
            call()


def test_a_runtime_without_a_log_says_so() -> None:
    with Runtime() as runtime:
        calls: list[Callable[[], Any]] = [
            lambda: runtime.prune(Retention()),
            lambda: runtime.prune(Retention(), dry_run=True),
            lambda: runtime.compact("a"),
            lambda: runtime.remove("a"),
            lambda: runtime.collect_blobs(),
        ]
        for call in calls:
            with pytest.raises(TiffanyError, match="has no log"):
                call()
