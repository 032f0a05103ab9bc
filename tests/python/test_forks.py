"""The threat: a fork does something in the world that nobody allowed, or is not what its parent was."""

from __future__ import annotations

import json
import threading
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiffany import Runtime, connect, create_external_promise, step, workflow
from tiffany.calls import Wait
from tiffany.durable import Run
from tiffany.errors import (
    BadArgumentError,
    NoSuchRunError,
    NotAllowedError,
    NotAnAnswerError,
    NotForkableError,
    OtherRunError,
    OtherShapeError,
    PausedRunWarning,
    RunOverError,
)
from tiffany.history import Change, TimeTravel, diff

DONE: list[str] = []


@step
def price(item: str) -> dict[str, int]:
    DONE.append(f"price {item}")
    return {"cents": len(item) * 10}


class Declined(Exception):
    """What a bank says."""


@step
def mail(text: str) -> str:
    DONE.append(f"mail {text}")
    return "sent"


@workflow(name="order")
async def order(item: str) -> str:
    try:
        found = await price(item)
    except Declined as error:
        return f"declined: {error}"
    if found["cents"] > 100:
        return await mail(f"{item} is dear")
    return f"{item} for {found['cents']}"


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    DONE.clear()
    with Runtime(wal=tmp_path) as runtime, warnings.catch_warnings():
        warnings.simplefilter("ignore", PausedRunWarning)
        yield runtime


def answer_of(run: Run[Any], wal: Path) -> int:
    """The record with the first answer of a step."""
    with TimeTravel(run, wal=wal) as travel:
        numbers = range(1, len(travel) + 1)
        return next(n for n in numbers if travel.record(n)["type"] == "EffectResult")


def test_a_fork_is_what_its_parent_was_with_another_answer(
    runtime: Runtime, tmp_path: Path
) -> None:
    run = runtime.submit(order, "tea", id="order-1")
    assert runtime.wait(run) == "tea for 30"
    at = answer_of(run, tmp_path)
    fork = runtime.fork(run, at, reply={"cents": 99})
    assert fork.id == f"order-1~{at}"
    assert runtime.wait(fork) == "tea for 99"
    assert runtime.wait(run) == "tea for 30"
    again = runtime.fork("order-1", at)
    assert again.id == f"order-1~{at}.2"
    assert runtime.wait(again) == "tea for 30"
    failed = runtime.fork(run.uuid, at, fail=Declined("no money"), id="what if")
    assert (failed.id, runtime.wait(failed)) == ("what if", "declined: no money")
    assert DONE == ["price tea"]
    found = diff(run, fork, wal=tmp_path)
    assert found.same_records == at - 1
    assert found.differences[0].changes[0] == Change("/value/cents", 30, 99)


def test_effects_of_its_own_are_refused_until_they_are_allowed(
    runtime: Runtime, tmp_path: Path
) -> None:
    run = runtime.submit(order, "tea", id="order-1")
    runtime.wait(run)
    at = answer_of(run, tmp_path)
    dear = runtime.fork(run, at, reply={"cents": 1_000})
    with pytest.raises(NotAllowedError, match="mail"):
        runtime.wait(dear)
    assert [paused.code for paused in runtime.paused()] == ["TFY0119"]
    assert DONE == ["price tea"]
    runtime.allow(dear, "post", "mail")
    assert runtime.wait(dear) == "sent"
    assert DONE == ["price tea", "mail tea is dear"]
    allowed = runtime.fork(run, at, reply={"cents": 2_000}, allow=["*"])
    assert runtime.wait(allowed) == "sent"
    assert DONE[2:] == ["mail tea is dear"]
    with pytest.raises(RunOverError):
        runtime.allow(allowed, "post")
    asking = runtime.submit(asks, id="asks-1")
    with pytest.raises(BadArgumentError, match="is not a fork"):
        runtime.allow(asking, "mail")


def test_what_cannot_be_forked(runtime: Runtime, tmp_path: Path) -> None:
    run = runtime.submit(order, "tea", id="order-1")
    runtime.wait(run)
    at = answer_of(run, tmp_path)
    with pytest.raises(OtherShapeError, match="/cents"):
        runtime.fork(run, at, reply={"cents": "many"})
    with pytest.raises(NotAnAnswerError):
        runtime.fork(run, 2, reply=1)
    for wrong, said in ((0, "records are counted from 1"), (1_000, "it has records 1 to")):
        with pytest.raises(NotForkableError, match=said):
            runtime.fork(run, wrong)
    with pytest.raises(NoSuchRunError):
        runtime.fork(uuid.uuid4(), 1)
    with pytest.raises(OtherRunError):
        runtime.fork(run, at, id="order-1")
    with pytest.raises(BadArgumentError, match="both an answer and an error"):
        runtime.fork(run, at, reply=1, fail="no")
    with pytest.raises(BadArgumentError, match=r"`allow` is a list.*write \['mail'\]"):
        runtime.fork(run, at, allow="mail")
    with pytest.raises(BadArgumentError, match="a name in `allow` is a text"):
        runtime.fork(run, at, allow=[1])  # type: ignore[list-item]
    with pytest.raises(BadArgumentError, match="`at` is a whole number"):
        runtime.fork(run, -1)
    as_is = runtime.fork(run, at, reply={"cents": 1.5}, as_is=True)
    assert runtime.wait(as_is) == "tea for 1.5"
    assert DONE == ["price tea"]


PROMISED: list[str] = []


@workflow(name="asks")
async def asks() -> Any:
    promise = await create_external_promise()
    PROMISED.append(str(promise.uuid))
    return await Wait(promise.future)


def test_from_outside_and_where_nobody_has_the_log(tmp_path: Path) -> None:
    PROMISED.clear()
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(asks, id="asks-1")
        runtime.flush()
        with TimeTravel(run, wal=tmp_path) as travel:
            last = len(travel)
        made: list[Any] = []

        def elsewhere() -> None:
            with connect(tmp_path) as connection:
                fork = connection.fork(run, last, id="other")
                made.append(fork)
                # The promise is the parent's, unless the fork is named.
                assert connection.settle(PROMISED[0], "fork", run=fork)
                assert connection.settle(PROMISED[0], "parent")

        thread = threading.Thread(target=elsewhere)
        thread.start()
        assert runtime.wait(run) == "parent"
        thread.join()
        assert made == [Run("other", made[0].uuid)]
        assert runtime.wait("other") == "fork"
    with connect(tmp_path) as connection:
        assert connection.is_offline
        late = connection.fork("asks-1", last, id="late")
        connection.allow(late, "*")
        assert connection.fail(PROMISED[0], KeyError("late"), run=late)
    with Runtime(wal=tmp_path) as runtime, pytest.raises(KeyError):
        runtime.wait(late)
    log = (tmp_path / "wal" / f"{late.uuid}.wal").read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    (forked,) = (line["ts"] for line in lines if line["type"] == "Forked")
    of = {"run": str(run.uuid), "at": last, "gen": 1, "ts": forked}
    assert lines[0]["fork"] == of
