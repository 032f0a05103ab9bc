"""The threat: what is told of a run is not what was, or looking at it does something. Logs are looked at, compared, exported and copied."""

from __future__ import annotations

import dataclasses
import json
import signal
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import lines, run_files, wait_for
from tiffany import Err, Ok, Runtime, gather, sleep, spawn, step, wait, workflow
from tiffany.calls import ReceiveMessage, put
from tiffany.durable import Run
from tiffany.errors import (
    BadArgumentError,
    DamagedBackupError,
    DivergedError,
    GoneError,
    LogError,
    LogInUseError,
    NestedRuntimeError,
    NoBackupError,
    NoRecordError,
    NoSuchRunError,
    NotEmptyError,
    OtherLogError,
    RunOverError,
    UnregisteredError,
    WrongThreadError,
)
from tiffany.history import (
    Change,
    Checked,
    DamagedLogWarning,
    Proposal,
    TimeTravel,
    Upcoming,
    backup,
    check,
    check_backup,
    diff,
    export,
    restore,
    try_,
)

NOTES: list[str] = []


@step
def price(item: str) -> int:
    NOTES.append(f"price {item}")
    return len(item) * 10


async def one(item: str) -> int:
    return await price(item)


@workflow(name="bill")
async def bill(*items: str, most: int = 100) -> int:
    total = 0
    try:
        for item in items:
            total += await price(item)
            await put("total", total)
        if total > most:
            raise ValueError(f"{total} is too much")
        return total
    finally:
        NOTES.append("finally")


@pytest.fixture
def wal(tmp_path: Path) -> Iterator[Path]:
    NOTES.clear()
    yield tmp_path / "wal"


def billed(wal: Path, *items: str, id: str = "bill-1") -> Run[int]:
    with Runtime(wal=wal) as runtime:
        run = runtime.submit(bill(*items), id=id)
        runtime.wait(run)
        return run


def calls(travel: TimeTravel) -> list[int]:
    """The records in which a step was called."""
    numbers = range(1, len(travel) + 1)
    return [number for number in numbers if travel.record(number).get("call") == "effect"]


def test_variables_stores_and_waits_are_as_they_were(wal: Path) -> None:
    run = billed(wal, "tea", "cake", "bun")
    before = [*NOTES]
    with TimeTravel(run, wal=wal) as travel:
        assert travel.run == run.uuid
        seen = []
        # Backwards as well as forwards.
        for number in [*calls(travel), *reversed(calls(travel))]:
            moment = travel.at(number)
            assert (moment.number, travel.here) == (number, number)
            assert moment.record["seq"] == number
            (task,) = moment.tasks
            (frame,) = task.frames
            assert (task.state, task.waits_for) == ("waiting", "step `price`")
            assert (frame.function, frame.file) == ("bill", __file__)
            assert task.waits_at == f"{frame.file}:{frame.line}"
            seen.append((frame.locals["item"], frame.locals["total"], task.store.get("total")))
        forwards = [("'tea'", "0", None), ("'cake'", "30", "30"), ("'bun'", "70", "70")]
        assert seen == forwards + forwards[::-1]
        # Nothing was done, and nothing was unwound.
        assert before == NOTES
        last = travel.at(len(travel))
        task_at_end = last.task(1)
        assert task_at_end is not None and task_at_end.state == "completed"
        assert last.task(2) is None
    # There it has come to its end by itself.
    assert [*before, "finally"] == NOTES


def test_one_further_one_back_and_along_a_task(wal: Path) -> None:
    @workflow(name="two")
    async def two() -> list[int]:
        return await gather(one("tea"), one("cake"))

    with Runtime(wal=wal) as runtime:
        runtime.run(two(), id="two-1")
    with TimeTravel("two-1", wal=wal) as travel:
        assert travel.here == len(travel)
        assert travel.back().number == len(travel) - 1
        assert travel.at(1).record["type"] == "RunStart"
        assert travel.next().number == 2
        of_three = []
        travel.at(1)
        while (moment := travel.next_of(3)) is not None:
            of_three.append(moment.record)
        assert [record["tid"] for record in of_three] == [3] * len(of_three)
        assert [record["type"] for record in of_three][-1] == "TaskExit"
        for wrong in (0, len(travel) + 1):
            with pytest.raises(NoRecordError, match=f"has no record {wrong}"):
                travel.at(wrong)
            with pytest.raises(NoRecordError):
                travel.record(wrong)
        travel.at(len(travel))
        with pytest.raises(NoRecordError):
            travel.next()
        assert travel.here == len(travel)
        for bad in (-1, "a", None, 1.5):
            with pytest.raises(BadArgumentError, match="`record` is a whole number"):
                travel.at(bad)  # type: ignore[arg-type]
        assert travel.failure() is None


def test_a_failure_opens_where_it_was_raised(wal: Path) -> None:
    with Runtime(wal=wal) as runtime, pytest.raises(ValueError):
        runtime.run(bill("a long item", most=1), id="dear")
    with TimeTravel("dear", wal=wal) as travel:
        moment = travel.failure()
        assert moment is not None and moment.record["type"] == "TaskAbort"
        (task,) = moment.tasks
        assert task.state == "failed"
        assert isinstance(task.error, ValueError) and str(task.error) == "110 is too much"
        assert task.frames[-1].locals["total"] == "110"
        # A debugger finds the same.
        entries = list(traceback.walk_tb(task.error.__traceback__))
        assert entries[-1][0].f_locals["total"] == 110
        before = travel.back()
        assert before.tasks[0].error is None
        assert before.tasks[0].state != "failed"


async def refuse(why: str) -> None:
    await price(why)
    raise ValueError(why)


@workflow(name="lenient")
async def lenient(last: str) -> None:
    caught = ""
    try:
        await wait(await spawn(refuse("at first")))
    except ValueError as error:
        caught = str(error)
    await price("tea")
    if last == "own":
        raise KeyError(f"after {caught}")
    await wait(await spawn(refuse("at last")))


def failed(wal: Path, last: str, error: type[Exception]) -> TimeTravel:
    with Runtime(wal=wal) as runtime, pytest.raises(error):
        runtime.run(lenient(last), id=last)
    return TimeTravel(last, wal=wal)


def test_the_failure_is_the_one_that_nobody_caught(wal: Path) -> None:
    with failed(wal, "own", KeyError) as travel:
        moment = travel.failure()
        assert moment is not None and moment.record["tid"] == 1
        root, child = moment.tasks[0], moment.task(2)
        assert isinstance(root.error, KeyError) and root.frames[-1].locals["caught"] == "'at first'"
        assert child is None or isinstance(child.error, ValueError)
    with failed(wal, "child", ValueError) as travel:
        moment = travel.failure()
        assert moment is not None and moment.record["tid"] == 3
        task = moment.task(3)
        assert task is not None and str(task.error) == "at last"
        assert [(frame.function, frame.locals) for frame in task.frames] == [
            ("refuse", {"why": "'at last'"})
        ]


def test_a_task_has_its_own_frames_with_their_variables_when_an_error_went_through_it(
    wal: Path,
) -> None:
    with failed(wal, "child", ValueError) as travel:
        moment = travel.at(len(travel))
        root, child = moment.tasks[0], moment.task(3)
        assert root.state == "failed" and isinstance(root.error, ValueError)
        (frame,) = root.frames
        assert frame.function == "lenient"
        assert (frame.locals["last"], frame.locals["caught"]) == ("'child'", "'at first'")
        if child is not None:
            assert [frame.function for frame in child.frames] == ["refuse"]
        # A debugger finds them all, each with its variables.
        entries = list(traceback.walk_tb(root.error.__traceback__))
        assert [entry[0].f_code.co_name for entry in entries] == ["lenient", "refuse"]
        assert entries[0][0].f_locals["caught"] == "at first"


def test_lines_that_spawned_tasks_are_lines_of_python(wal: Path) -> None:
    with failed(wal, "child", ValueError) as travel:
        for number in range(1, len(travel) + 1):
            for task in travel.at(number).tasks:
                file, _, line = task.spawned_at.rpartition(":")
                assert file == __file__, (number, task)
                source = Path(file).read_text().splitlines()[int(line) - 1]
                wanted = "@workflow" if task.tid == 1 else "await spawn(refuse("
                assert wanted in source, task


def test_a_traveller_is_refused_where_it_cannot_be(wal: Path) -> None:
    run = billed(wal, "tea")
    with pytest.raises(NoSuchRunError):
        TimeTravel("nobody", wal=wal)
    with pytest.raises(LogError):
        TimeTravel(run, wal=wal / "nowhere")
    with pytest.raises(BadArgumentError, match=r"takes no `enw`.*did you mean `env`"):
        TimeTravel(run, wal=wal, enw={})  # type: ignore[call-arg]
    with pytest.raises(BadArgumentError, match="`wal` is a path"):
        TimeTravel(run, wal=7)  # type: ignore[arg-type]
    travel = TimeTravel(run, wal=wal)
    travel.close()
    travel.close()
    with pytest.raises(GoneError):
        travel.at(1)
    travel = TimeTravel(run, wal=wal)
    raised: list[BaseException] = []

    def elsewhere() -> None:
        try:
            travel.at(1)
        except WrongThreadError as error:
            raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(raised) == 1

    def looks() -> Any:
        yield
        travel.at(1)

    with pytest.raises(NestedRuntimeError):
        tiffany.run(looks())
    assert travel.at(1).number == 1
    travel.close()


def test_a_run_that_goes_on_is_looked_at_beside_it(wal: Path) -> None:
    with Runtime(wal=wal) as runtime:
        run = runtime.submit(waits, "tea", id="waits-1")
        wait_for(lambda: waits_for_a_message(runtime, run, wal))
        runtime.send(run, "paid", 1)
        assert runtime.wait(run) == (30, 1)


@workflow(name="waits")
async def waits(item: str) -> tuple[int, int]:
    cents = await price(item)
    paid: int = await ReceiveMessage("paid")
    return cents, paid


async def nap() -> None:
    await sleep(0.01)


def waits_for_a_message(runtime: Runtime, run: Run[Any], wal: Path) -> bool:
    runtime.run(nap())
    runtime.flush()
    with TimeTravel(run, wal=wal) as travel:
        waits = travel.at(len(travel)).tasks[0].waits_for or ""
        return waits == 'message "paid"'


@step(name="price with tax")
def taxed(item: str) -> int:
    NOTES.append("tax")
    return len(item) * 12


async def edited(item: str) -> tuple[int, int]:
    cents = await taxed(item)
    paid: int = await ReceiveMessage("paid")
    return cents, paid


def paused(wal: Path) -> Run[Any]:
    with Runtime(wal=wal) as runtime:
        run = runtime.submit(waits, "tea", id="waits-1")
        runtime.wait(runtime.submit(bill("tea"), id="over"))
        wait_for(lambda: waits_for_a_message(runtime, run, wal))
        return run


def test_check_tells_which_runs_go_on(wal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = paused(wal)
    before = [*NOTES]
    assert check(wal) == [Checked(run.uuid, "waits-1", "waits", None)]
    assert before == NOTES
    named = check(wal, ["over", run])
    assert [(checked.id, checked.goes_on) for checked in named] == [
        ("over", True),
        ("waits-1", True),
    ]
    with pytest.raises(NoSuchRunError):
        check(wal, ["nobody"])
    with pytest.raises(BadArgumentError, match="`runs` is a list"):
        check(wal, "waits-1")
    monkeypatch.setitem(tiffany.durable._workflows._REGISTERED, "waits", edited)
    (checked,) = check(wal)
    assert not checked.goes_on
    assert isinstance(checked.error, DivergedError)
    assert "price with tax" in str(checked.error) and "the call was renamed" in str(checked.error)
    monkeypatch.delitem(tiffany.durable._workflows._REGISTERED, "waits")
    (checked,) = check(wal)
    assert isinstance(checked.error, UnregisteredError)
    # The one that is over came to its end by itself; nothing was done besides.
    assert [*before, "finally"] == NOTES


def test_try_tells_what_a_run_would_do_next(wal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = paused(wal)
    before = [*NOTES]
    trial = try_(run, wal=wal)
    assert (trial.run, trial.id, trial.workflow) == (run.uuid, "waits-1", "waits")
    assert (trial.calls, trial.outcome, trial.error, trial.proposal) == (2, None, None, None)

    monkeypatch.setitem(tiffany.durable._workflows._REGISTERED, "waits", edited)
    trial = try_(run, wal=wal)
    assert isinstance(trial.error, DivergedError)
    assert isinstance(trial.proposal, Proposal)
    assert trial.proposal.id == "change-price"
    assert trial.proposal.at.startswith(f"{__file__}:")
    assert trial.proposal.lines == [
        'if await patched("change-price"):',
        "    ...  # the new code",
        "else:",
        "    ...  # the old code",
    ]
    with pytest.raises(RunOverError, match=r"is finished.*TFY0042"):
        try_("over", wal=wal)
    assert before == NOTES


def test_try_tells_what_a_run_would_end_with(wal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log ends with the call of a step, so that what comes after it is code alone."""

    @workflow(name="first")
    async def first(item: str) -> int:
        return await price(item)

    with Runtime(wal=wal) as runtime:
        run = runtime.submit(first, "tea", id="first-1")
        runtime.wait(run)
    text = lines(wal)
    (file,) = run_files(wal)
    cut = wal.parent / "cut"
    (cut / "wal").mkdir(parents=True)
    result = next(at for at, line in enumerate(text) if "EffectResult" in line)
    (cut / "wal" / file.name).write_text("".join(text[: result + 1]))
    trial = try_(run, wal=cut)
    assert trial.outcome == Ok(30)
    assert trial.upcoming == []

    async def fails(item: str) -> int:
        raise KeyError(await price(item))

    async def more(item: str) -> int:
        return await price(item) + await taxed(item)

    monkeypatch.setitem(tiffany.durable._workflows._REGISTERED, "first", fails)
    trial = try_(run, wal=cut)
    assert isinstance(trial.outcome, Err) and isinstance(trial.outcome.error, KeyError)
    monkeypatch.setitem(tiffany.durable._workflows._REGISTERED, "first", more)
    trial = try_(run, wal=cut)
    (upcoming,) = trial.upcoming
    assert isinstance(upcoming, Upcoming)
    assert (upcoming.tid, upcoming.call, upcoming.name) == (1, "effect", "price with tax")
    assert "tax" not in NOTES


def test_diff_tells_where_two_runs_part(wal: Path) -> None:
    with Runtime(wal=wal) as runtime:
        a = runtime.submit(bill("tea", "cake"), id="a")
        b = runtime.submit(bill("tea", "bun"), id="b")
        same = runtime.submit(bill("tea", "cake"), id="same")
        for run in (a, b, same):
            runtime.wait(run)
    found = diff(a, "same", wal=wal)
    assert found.is_same and found.parting is None
    assert (found.a.id, found.b.id, found.a.workflow) == ("a", "same", "bill")
    found = diff("a", b.uuid, wal=wal)
    assert not found.is_same
    assert found.same_records == 0
    assert found.parting is not None and found.parting.a is not None
    assert found.parting.a.type == "RunStart"
    kinds = [difference.kind for difference in found.differences]
    assert kinds == ["input", "call", "end"]
    assert found.differences[0].changes == [Change("/input/items/$tuple/1", "cake", "bun")]
    call = next(difference for difference in found.differences if difference.kind == "call")
    assert call.tids == (1, 1) and call.call == 2
    end = found.differences[-1]
    assert end.a is not None and end.a.type == "TaskExit"
    assert end.changes == [Change("/value", 70, 60)]
    assert (found.tasks, found.differing_tasks) == (1, 1)
    few = diff(a, b, wal=wal, limit=1)
    assert (len(few.differences), few.more) == (1, len(found.differences) - 1)
    elsewhere = wal.parent / "elsewhere"
    other = billed(elsewhere, "tea", "cake", id="a")
    assert diff(a, other, wal=wal, other=elsewhere).is_same
    with pytest.raises(NoSuchRunError):
        diff(a, "nobody", wal=wal)
    with pytest.raises(BadArgumentError, match="`limit`"):
        diff(a, b, wal=wal, limit=-1)


def test_export_gives_structure_or_writes_a_file(wal: Path, tmp_path: Path) -> None:
    run = billed(wal, "tea", "cake")
    document = export(run, wal=wal, format="json")
    assert document["run"] == str(run.uuid)
    assert [record["seq"] for record in document["records"]] == list(
        range(1, len(document["records"]) + 1)
    )
    assert document["unread"] is None
    trace = export(run, wal=wal, format="chrome-trace")
    assert {"traceEvents"} <= trace.keys()
    graph = export(run, wal=wal, format="mermaid")
    assert graph.startswith("flowchart") and "bill" in graph
    for format in ("json", "chrome-trace", "mermaid"):
        path = tmp_path / f"run.{format}"
        assert export(run, wal=wal, format=format, to=path) is None
        text = path.read_text()
        given = {"json": document, "chrome-trace": trace, "mermaid": graph}[format]
        assert given == (text if format == "mermaid" else json.loads(text))
    with pytest.raises(BadArgumentError, match='not as "svg"'):
        export(run, wal=wal, format="svg")  # type: ignore[call-overload]
    with pytest.raises(FileNotFoundError):
        export(run, wal=wal, format="json", to=tmp_path / "nowhere" / "run.json")
    assert not list(tmp_path.glob("**/*.new"))


def test_damage_is_told(wal: Path) -> None:
    run = billed(wal, "tea", "cake")
    with Runtime(wal=wal):
        pass  # From now on only the run's own file has its records.
    (file,) = run_files(wal)
    text = file.read_text()
    file.write_text(text[: len(text) // 2] + "?" + text[len(text) // 2 + 1 :])
    with pytest.warns(DamagedLogWarning, match="TFY0107"):
        document = export(run, wal=wal, format="json")
    assert "TFY0107" in document["unread"]
    with pytest.raises(LogError) as raised:
        TimeTravel(run, wal=wal)
    assert raised.value.code == "TFY0107"
    (checked,) = check(wal, [run])
    assert isinstance(checked.error, LogError) and checked.id == "bill-1"
    # Of a damaged index there are still the files of the runs.
    (wal / "commit" / "index").write_bytes(b"?" * 100)
    with pytest.warns(DamagedLogWarning):
        assert diff(run, run, wal=wal).a.id == "bill-1"


def test_a_backup_of_a_log_in_use_is_restored(wal: Path, tmp_path: Path) -> None:
    copy, again = tmp_path / "copy", tmp_path / "again"
    told: list[tuple[int, int]] = []
    with Runtime(wal=wal) as runtime:
        run = runtime.submit(waits, "tea", id="waits-1")
        runtime.flush()
        taken = backup(wal, copy, on_progress=lambda done, total: told.append((done, total)))
        assert (taken.runs, taken.copied_runs, taken.damaged) == (1, 1, [])
        assert taken.bytes == taken.copied_bytes == told[-1][0] == told[-1][1]
        assert backup(wal, copy, rate=0).copied_bytes == 0
        with pytest.raises(LogInUseError):
            restore(copy, wal, force=True)
        runtime.send(run, "paid", 1)
        runtime.wait(run)
        assert backup(wal, copy).copied_runs == 1
    whole = check_backup(copy)
    restored = restore(copy, again)
    assert restored == whole
    assert dataclasses.asdict(whole)["records"] == len(lines(wal))
    with Runtime(wal=again) as runtime:
        assert runtime.wait("waits-1") == (30, 1)
    with pytest.raises(NotEmptyError):
        restore(copy, again)
    assert restore(copy, again, force=True) == whole
    billed(tmp_path / "other", "tea")
    with pytest.raises(OtherLogError):
        backup(tmp_path / "other", copy)
    with pytest.raises(NoBackupError):
        check_backup(tmp_path)
    (file,) = (copy / "runs").iterdir()
    file.write_text(file.read_text()[:-2])
    with pytest.raises(DamagedBackupError):
        check_backup(copy)
    with pytest.raises(BadArgumentError, match="`rate`"):
        backup(wal, copy, rate=-1)
    with pytest.raises(BadArgumentError, match="`on_progress`"):
        backup(wal, copy, on_progress=7)  # type: ignore[arg-type]


def test_a_backup_ends_when_it_is_to_end_and_the_one_before_stays(
    wal: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    billed(wal, "tea", id="a")
    first = backup(wal, copy)
    billed(wal, "tea", id="b")

    def no_more(done: int, total: int) -> None:
        raise KeyError(total)

    with pytest.raises(KeyError):
        backup(wal, copy, on_progress=no_more)
    assert check_backup(copy).records == first.records

    def interrupts(done: int, total: int) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        backup(wal, copy, rate=1, on_progress=interrupts)
    assert check_backup(copy).runs == 1
    assert backup(wal, copy).runs == 2
