"""Sagas: what was done is undone in reverse, once, wherever the process dies."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import Ledger, cut, lines, records
from tiffany import Saga, step
from tiffany.calls import Cancel, Sleep, Spawn, Wait
from tiffany.errors import NotUndoneError, TaskCancelledError


@step
def book(ledger: str, what: str) -> str:
    Ledger(ledger).write(f"book {what}")
    if what.startswith("no "):
        raise RuntimeError(what)
    return what


@step(timeout=0.05)
async def slow(ledger: str) -> str:
    await asyncio.sleep(10)
    return "slow"


@step
def free(ledger: str, what: str) -> None:
    Ledger(ledger).write(f"free {what}")
    if what == "stuck":
        raise OSError("stuck")


stuck = free.with_options(retries=1, backoff=0)


async def travel(ledger: str, *whats: str) -> list[str]:
    async with Saga() as saga:
        for what in whats:
            if what.startswith("slow"):
                known = None if what == "slow" else lambda: free(ledger, "slow")
                await saga.step(slow(ledger), lambda slow: free(ledger, slow), in_doubt=known)
            elif what == "stuck":
                await saga.step(book(ledger, what), lambda _: stuck(ledger, "stuck"))
            else:
                await saga.step(book(ledger, what), lambda what: free(ledger, what))
        return list(whats)


def dialect(ledger: str, *whats: str) -> Any:
    """The same as a generator."""
    saga = Saga()
    try:
        for what in whats:
            yield saga.step(book(ledger, what), lambda what: free(ledger, what))
    except RuntimeError:
        yield saga.undo()
        return saga.undone


async def nested(ledger: str, *whats: str) -> list[str]:
    """A program that awaits the one with the saga."""
    return await travel(ledger, *whats)


def test_what_succeeds_is_not_undone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert tiffany.run(travel(str(ledger.path), "a", "b"), wal=tmp_path, id="a") == ["a", "b"]
    assert ledger.read() == ["book a", "book b"]


@pytest.mark.parametrize("program", [travel, dialect, nested], ids=lambda it: it.__name__)
def test_every_step_is_located_in_the_program_and_not_in_this_package(
    tmp_path: Path, program: Any
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with contextlib.suppress(RuntimeError):
        tiffany.run(program(str(ledger.path), "a", "no room"), wal=tmp_path / "wal", id="a")
    assert ledger.read() == ["book a", "book no room", "free a"]
    steps = [record for record in records(tmp_path / "wal") if record.get("call") == "effect"]
    source = Path(__file__).read_text().splitlines()
    shown = [source[int(record["at"].rpartition(":")[2]) - 1].strip() for record in steps]
    assert all(Path(__file__).name in record["at"] for record in steps), steps
    undone = "yield saga.undo()" if program is dialect else "async with Saga() as saga:"
    assert all(line.startswith(("await saga.step(", "yield saga.step(")) for line in shown[:2])
    assert shown[2] == undone


def test_what_fails_is_undone_in_reverse_from_every_line_of_the_log(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    given = (str(ledger.path), "a", "b", "no room")
    with pytest.raises(RuntimeError, match="no room"):
        tiffany.run(travel(*given), wal=tmp_path / "whole", id="a")
    done = ["book a", "book b", "book no room", "free b", "free a"]
    assert ledger.read() == done
    for count in range(1, len(lines(tmp_path / "whole"))):
        ledger.path.unlink()
        there = cut(tmp_path / "whole", count, tmp_path / str(count))
        with pytest.raises(RuntimeError, match="no room"):
            tiffany.run(travel(*given), wal=there, id="a")
        # What the log has is not done again; the rest is, in the same order.
        again = ledger.read()
        assert again == done[len(done) - len(again) :]


def test_generators_have_sagas_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    given = (str(ledger.path), "a", "b", "no room")
    assert tiffany.run(dialect(*given), wal=tmp_path, id="a") == ["book", "book"]
    assert ledger.read()[-2:] == ["free b", "free a"]


def test_what_cannot_be_undone_is_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    given = (str(ledger.path), "a", "stuck", "no room")
    with pytest.raises(
        NotUndoneError, match=r"no room; not undone: `book` \(OSError: stuck\)"
    ) as raised:
        tiffany.run(travel(*given), wal=tmp_path, id="a")
    assert raised.value.code == "TFY0051"
    assert isinstance(raised.value.__cause__, RuntimeError)
    assert ledger.read()[-3:] == ["free stuck", "free stuck", "free a"]


def test_a_step_of_which_nobody_knows_is_told_of_or_undone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with pytest.raises(NotUndoneError, match="not undone: `slow`"):
        tiffany.run(travel(str(ledger.path), "a", "slow"), wal=tmp_path / "one", id="a")
    assert ledger.read() == ["book a", "free a"]
    with pytest.raises(tiffany.errors.TimedOutError):
        tiffany.run(travel(str(ledger.path), "slow, but known"), wal=tmp_path / "two", id="a")
    assert ledger.read()[-1] == "free slow"


async def sleeping(ledger: str) -> None:
    async with Saga() as saga:
        await saga.step(book(ledger, "a"), lambda what: free(ledger, what))
        saga.on_failure("other", lambda: free(ledger, "other"))
        await Sleep(3600)


def cancelling(ledger: str) -> Any:
    task = yield Spawn(sleeping(ledger))
    yield Sleep(0.1)
    yield Cancel(task)
    try:
        yield Wait(task)
    except TaskCancelledError:
        return "cancelled"


def test_a_cancelled_saga_is_undone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert tiffany.run(cancelling(str(ledger.path)), wal=tmp_path, id="a") == "cancelled"
    assert ledger.read() == ["book a", "free other", "free a"]


def test_an_undo_step_is_tried_again_without_being_told_so() -> None:
    call = free("x", "y").with_options(retries=9)
    assert call.step.options == {"retries": 9}
    assert call.arguments == {"ledger": "x", "what": "y"}
