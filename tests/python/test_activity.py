"""What runs are doing, seen from Python: what tasks and steps show, and subscriptions on threads and under asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import Runtime, step, workflow
from tiffany.durable import Activity, Lost, Subscription

LIMIT = 30.0


def stages(events: list[Activity]) -> list[str]:
    return [event.stage for event in events]


def read(events: Subscription, last: str = "Completed") -> list[Activity]:
    """All events up to the end of the run."""
    told: list[Activity] = []
    while True:
        event = events.next(timeout=LIMIT)
        assert isinstance(event, Activity), event
        told.append(event)
        if event.tid is None and event.stage == last:
            return told


def shows() -> Generator[Any, Any, None]:
    yield tiffany.progress(1, 3, "one")
    yield tiffany.progress(2)
    yield tiffany.log("warn", "careful")
    yield tiffany.output("stdout", "hello\n")
    yield tiffany.stage("WaitingForLLM", "thinking")


async def shows_too() -> None:
    await tiffany.progress(1, 3, message="one")
    await tiffany.progress(2, total=None)
    await tiffany.log("warn", "careful")
    await tiffany.output("stdout", "hello\n")
    await tiffany.stage("WaitingForLLM", message="thinking")


@pytest.mark.parametrize("program", [shows, shows_too])
def test_what_tasks_show(program: Any) -> None:
    begun = datetime.now(UTC)
    with Runtime() as runtime, runtime.activity() as events:
        runtime.run(program())
        told = read(events)
    shown = told[1:-2]
    assert stages(shown) == ["Progress", "Progress", "Log", "Output", "WaitingForLLM"]
    assert [event.message for event in shown] == ["one", "", "careful", "hello\n", "thinking"]
    assert [event.data for event in shown] == [
        {"done": 1, "total": 3},
        {"done": 2},
        {"level": "warn"},
        {"stream": "stdout"},
        {},
    ]
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert all(event.tid == 1 and not event.ghost for event in shown)
    assert abs((told[0].ts - begun).total_seconds()) < 60


@step
def counts(number: int) -> int:
    for done in range(number):
        tiffany.progress(done + 1, number, "counted")
    tiffany.output("stdout", "a line")
    return number


@step
async def counts_too(number: int) -> int:
    tiffany.log("info", "begun")
    await asyncio.sleep(0)
    tiffany.progress(number, number)
    return number


@workflow
def counting(number: int) -> Generator[Any, Any, int]:
    first = yield counts(number)
    second = yield counts_too(first)
    return int(second)


def test_what_steps_show_from_their_threads(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(counting, 2, id="c")
        assert runtime.wait(run) == 2
        with runtime.activity(run, from_seq=0) as events:
            told = read(events)
        assert stages(told) == [
            "ReceivedInstruction",
            "Spawned",
            "ToolExecutionStart",
            "Progress",
            "Progress",
            "Output",
            "ToolExecutionComplete",
            "ToolExecutionStart",
            "Log",
            "Progress",
            "ToolExecutionComplete",
            "Completed",
            "Completed",
        ]
        assert told[3].data["step"].endswith("counts")
        assert {event.task_id for event in told} == {str(run.uuid)}
        assert told[0].data["id"] == "c"


def test_another_thread_iterates_to_the_end() -> None:
    told: list[Activity | Lost] = []
    runtime = Runtime()
    events = runtime.activity()
    thread = threading.Thread(target=lambda: told.extend(events))
    thread.start()
    runtime.run(shows())
    runtime.close()
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert len(told) == 8
    assert events.lost == 0


def test_asyncio_iterates_while_a_thread_runs() -> None:
    ready = threading.Event()
    subscriptions: list[Subscription] = []

    def work(go: threading.Event) -> None:
        with Runtime() as runtime:
            subscriptions.append(runtime.activity())
            ready.set()
            assert go.wait(LIMIT)
            runtime.run(shows())

    async def watch() -> list[Activity]:
        return [event async for event in subscriptions[0] if isinstance(event, Activity)]

    async def main() -> list[Activity]:
        go = threading.Event()
        thread = threading.Thread(target=work, args=(go,))
        thread.start()
        assert await asyncio.to_thread(ready.wait, LIMIT)
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        go.set()
        told = await asyncio.wait_for(watching, LIMIT)
        thread.join(LIMIT)
        return told

    assert stages(asyncio.run(main()))[1] == "Progress"


def test_a_handler_sees_what_is_shown() -> None:
    seen: list[tuple[Any, ...]] = []

    def looks(call: Any, tid: int) -> Any:
        if isinstance(call, tiffany.calls.Show):
            seen.append((call.stage, call.message, call.done, call.total, call.level, call.stream))
            if call.stage == "Output":
                return tiffany.calls.Refuse("no")
        return None

    def main() -> Generator[Any, Any, None]:
        call = tiffany.progress(1, 2, "half")
        assert repr(call) == "Show('1 of 2: half')"
        yield call
        yield tiffany.log("debug", "x")
        with pytest.raises(tiffany.errors.RefusedError):
            yield tiffany.output("stderr", "y")

    tiffany.run(main(), handlers=[looks])
    assert seen == [
        ("Progress", "half", 1, 2, None, None),
        ("Log", "x", None, None, "debug", None),
        ("Output", "y", None, None, None, "stderr"),
    ]


def test_what_is_lost_is_told() -> None:
    def main() -> Generator[Any, Any, None]:
        for _ in range(20_000):
            yield tiffany.log("info", "x")

    with Runtime() as runtime, runtime.activity() as events:
        runtime.run(main())
        told = events.next(timeout=LIMIT)
        assert isinstance(told, Lost)
        assert told.count == events.lost == 20_003 - 4_096


def test_nothing_in_time_is_an_error_and_a_closed_runtime_an_end() -> None:
    runtime = Runtime()
    events = runtime.activity()
    with pytest.raises(TimeoutError):
        events.next(timeout=0.01)
    runtime.close()
    assert events.next() is None
    assert list(events) == []
    with pytest.raises(tiffany.errors.GoneError):
        runtime.activity()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tiffany.progress(-1),
        lambda: tiffany.progress("many"),  # type: ignore[arg-type]
        lambda: tiffany.progress(1, 2.5),  # type: ignore[arg-type]
        lambda: tiffany.progress(1, 2, 3),  # type: ignore[arg-type]
        lambda: tiffany.log("loud", "x"),  # type: ignore[arg-type]
        lambda: tiffany.log("info", None),  # type: ignore[arg-type]
        lambda: tiffany.output("stdout", b"x"),  # type: ignore[arg-type]
        lambda: tiffany.stage("Dancing"),
    ],
)
def test_bad_arguments(make: Any) -> None:
    with pytest.raises(tiffany.errors.BadArgumentError):
        make()


def test_a_run_that_is_brought_back_is_a_ghost_until_it_goes_on(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path, workflows=[waits]) as runtime:
        runtime.submit(waits, id="w")
        runtime.flush()
    with (
        Runtime(wal=tmp_path, workflows=[waits]) as runtime,
        runtime.activity(from_seq=0) as every,
        runtime.activity(from_seq=0, ghosts=False) as live,
    ):
        runtime.send("w", "word", "go")
        assert runtime.wait("w") == "go"
        told, lively = read(every), read(live)
    ghosts = [event for event in told if event.ghost]
    assert stages(ghosts) == ["ReceivedInstruction", "Spawned", "Progress"]
    assert [event for event in told if not event.ghost] == lively
    assert stages(lively) == ["Log", "Completed", "Completed"]


@workflow
def waits() -> Generator[Any, Any, str]:
    yield tiffany.progress(1, 2, "before")
    word = yield tiffany.receive_message("word")
    yield tiffany.log("info", "after")
    return str(word)
