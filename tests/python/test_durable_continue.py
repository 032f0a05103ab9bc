"""Runs that begin anew by `ContinueAs`: what stays, what goes, and what is refused."""

from __future__ import annotations

import gc
import types
import weakref
from pathlib import Path
from typing import Any

import pytest
from durable_kit import Ledger, kill_until_over, records, run_files
from tiffany import Runtime, attempt, continue_as, receive_message, run, sleep, step, workflow
from tiffany.calls import ContinueAs, ReceiveMessage, Sleep, Spawn, Wait
from tiffany.errors import (
    BadArgumentError,
    CannotContinueError,
    NotSerializableError,
    OtherRunError,
)

GENERATIONS = 1_000
ENDED: list[int] = []


class Kept:
    """Something that a generation has in its variables."""


KEPT: weakref.WeakSet[Kept] = weakref.WeakSet()


@workflow(name="long")
async def long(number: int, total: int = 0) -> int:
    kept = Kept()
    KEPT.add(kept)
    try:
        await sleep(0)
        if number == GENERATIONS:
            return total
        await continue_as(number + 1, total=total + number)
    finally:
        ENDED.append(number)


def test_a_thousand_generations_leave_one_short_log_and_nothing_in_memory(tmp_path: Path) -> None:
    ENDED.clear()
    with Runtime(wal=tmp_path, clock="virtual") as runtime:
        begun = runtime.submit(long, 1, id="long-1")
        assert runtime.wait(begun) == sum(range(GENERATIONS))
        # Each of them ended as if it had returned.
        assert list(range(1, GENERATIONS + 1)) == ENDED
        gc.collect()
        assert len(KEPT) == 0
        # It is known by what it was first given.
        assert runtime.submit(long, 1, id="long-1") == begun
        with pytest.raises(OtherRunError):
            runtime.submit(long, 2, id="long-1")
    (file,) = run_files(tmp_path)
    assert file.stat().st_size < 2_000
    first = records(tmp_path)[0]
    assert (first["gen"], first["continued"]["gen"]) == (GENERATIONS, GENERATIONS - 1)
    assert first["continued"]["calls"] == 2 * (GENERATIONS - 1)
    assert first["input"] == {"number": GENERATIONS, "total": sum(range(GENERATIONS))}


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_between_generations_it_goes_on_in_the_last_one(seed: int, tmp_path: Path) -> None:
    out = kill_until_over("programs/continued.py", tmp_path, "200", seed=seed)
    assert out == f"{sum(range(201))}\n"
    keys: dict[int, set[str]] = {}
    for line in Ledger(tmp_path / "ledger").read():
        number, key = line.split()
        keys.setdefault(int(number), set()).add(key)
    # Each step has one key, however often it was begun, and no two have the same.
    assert sorted(keys) == list(range(1, 201))
    assert all(len(of) == 1 for of in keys.values())
    assert len(set.union(*keys.values())) == 200
    first = records(tmp_path / "wal")[0]
    assert (first["gen"], first["input"]) == (200, {"number": 200, "total": sum(range(200))})


@step
def seen_by() -> str:
    return attempt().key


@workflow(name="inbox")
async def inbox(taken: list[Any], keys: list[str]) -> tuple[list[Any], list[str]]:
    keys.append(await seen_by())
    for _ in range(2):
        message = await receive_message("item")
        if message is None:
            return taken, keys
        taken.append(message)
    await continue_as(taken, keys)


def test_messages_that_wait_carry_over_and_no_key_is_used_twice(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        begun = runtime.submit(inbox, [], [], id="inbox-1")
        for number in range(5):
            runtime.send(begun, "item", {"number": number})
        runtime.flush()
    with Runtime(wal=tmp_path) as runtime:
        runtime.send(begun, "item", None)
        taken, keys = runtime.wait(begun)
    assert taken == [{"number": number} for number in range(5)]
    assert len(keys) == len(set(keys)) == 3
    assert keys[2].startswith(f"{begun.uuid}/3.")


def plain(number: int) -> Any:
    """A workflow that has only its place in the module."""
    yield ReceiveMessage("go")
    if number:
        yield ContinueAs(number - 1)
    return "over"


def test_a_function_that_was_found_by_its_name_begins_anew_too(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        begun = runtime.submit(plain, 1, id="plain-1")
        runtime.flush()
    with Runtime(wal=tmp_path) as runtime:
        runtime.send(begun, "go", None)
        runtime.send(begun, "go", None)
        assert runtime.wait(begun) == "over"


def later() -> Any:
    yield Sleep(0.001)


def continues() -> Any:
    yield ContinueAs()


@workflow(name="refused")
def refused(limit: int, /, *names: str, last: bool = False) -> Any:
    codes = []
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1,), {"first": True}),
        ((object(),), {}),
    ]
    for args, kwargs in given:
        try:
            yield ContinueAs(*args, **kwargs)
        except (BadArgumentError, NotSerializableError) as error:
            codes.append(error.code)
    child = yield Spawn(later())
    try:
        yield ContinueAs(limit)
    except CannotContinueError as error:
        codes.append(str(error))
    yield Wait(child)
    try:
        yield Wait((yield Spawn(continues())))
    except CannotContinueError as error:
        codes.append(str(error))
    if last:
        return limit, names, codes
    yield ContinueAs(limit + 1, "a", "b", last=True)


def test_what_is_refused_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    limit, names, codes = run(refused(1), wal=tmp_path, id="refused-1")
    assert (limit, names) == (2, ("a", "b"))
    assert codes[:3] == ["TFY0032", "TFY0032", "TFY0034"]
    assert "task 2" in codes[3] and "is not finished" in codes[3]
    assert "task 3 is not the root, and only the root can call `continue_as`" in codes[4]


def test_a_run_that_is_not_durable_cannot_begin_anew() -> None:
    with pytest.raises(CannotContinueError, match="not durable"):
        run(continues())


@workflow(name="clings")
def clings(number: int) -> Any:
    try:
        if not number:
            yield ContinueAs(1)
        return number
    finally:
        if not number:
            yield Sleep(60)


@workflow(name="clings too")
async def clings_too(number: int) -> int:
    try:
        if not number:
            await continue_as(1)
        return number
    finally:
        if not number:
            await sleep(60)


@pytest.mark.parametrize(("program", "code"), [(clings, "TFY0054"), (clings_too, "TFY0004")])
def test_calls_of_a_generation_that_is_over_are_not_made_and_told_of(
    program: Any, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", told.append)
    assert run(program(0), wal=tmp_path, id="clings-1") == 1
    assert [code in str(shown.exc_value) for shown in told] == [True]


def test_how_it_reads() -> None:
    call = continue_as(1, "a", key=[2])
    assert isinstance(call, ContinueAs)
    assert (call.args, call.kwargs) == ((1, "a"), {"key": [2]})
    assert repr(call) == "ContinueAs(1, 'a', key=[2])"
    assert isinstance(continue_as, types.BuiltinFunctionType | type)
