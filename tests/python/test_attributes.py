"""Tags, attributes and deadlines in Python: given at the start, changed by the run, and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import connect, receive_message, set_attributes, step, workflow
from tiffany.calls import add_tags, remove_tags
from tiffany.durable import RunInfo, Runtime
from tiffany.errors import (
    BadArgumentError,
    BadAttributeError,
    BadDeadlineError,
    DeadlinePassedError,
    ReservedNameError,
    SecretNameError,
)

DUE = datetime(2027, 1, 15, 8, 0, 0, 250_000, tzinfo=UTC)
TRIED: list[str] = []


@step
def charge() -> str:
    return "charged"


@workflow
async def order(amount: int) -> str:
    await set_attributes({"order.amount": amount}, stage="charging", rate=None)
    await charge()
    await add_tags("charged", "eu")
    await remove_tags("gold")
    word: str = await receive_message("word")
    await set_attributes(stage=word)
    return word


@workflow
async def tries() -> list[str]:
    codes: list[str] = []
    tags: list[Any] = ["a\nb", "fine", 7]
    for values in ({"a b": 1}, {"a": [1]}, {"a": 2**63}, {"a": float("nan")}, {"a": None}):
        try:
            await set_attributes(values)
            codes.append("ok")
        except BadAttributeError as error:
            codes.append(error.code)
    for tag in tags:
        try:
            await add_tags(tag)
            codes.append("ok")
        except BadAttributeError as error:
            codes.append(error.code)
    return codes


@workflow
async def tagged(tags: Any) -> Any:
    return tags


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    with Runtime(wal=tmp_path) as runtime:
        yield runtime


def only(runtime: Runtime, **asked: Any) -> RunInfo:
    runs = runtime.runs(**asked)
    assert len(runs) == 1
    return runs[0]


def test_they_are_given_at_the_start_and_changed_by_the_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "customer": "ada",
        "rate": 0.5,
        "whole": 2.0,
        "paid": False,
        "due": DUE,
    }
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(order, 17, id="o", tags=["gold", "new"], attributes=given)
        begun = only(runtime)
        assert begun.tags == ["gold", "new"]
        assert begun.attributes == given
        assert [type(begun.attributes[name]) for name in ("whole", "paid")] == [float, bool]
        runtime.send(run, "word", "sent")
        assert runtime.wait(run) == "sent"
    for _ in range(2):
        with Runtime(wal=tmp_path) as runtime:
            done = only(runtime)
            assert (done.id, done.state) == ("o", "completed")
            assert done.tags == ["charged", "eu", "new"]
            changed = {**given, "order.amount": 17, "stage": "sent"}
            del changed["rate"]
            assert done.attributes == changed
            again = runtime.submit(order, 17, id="o", tags=["late"])
            assert again == run


def test_runs_are_found_by_tags_and_attributes(runtime: Runtime, tmp_path: Path) -> None:
    for number in range(5):
        runtime.submit(
            order,
            number,
            id=f"o{number}",
            tags=["even"] if number % 2 == 0 else ["odd"],
            attributes={"number": number, "name": f"n{number}", "due": DUE + timedelta(number)},
        )
    runtime.flush()

    def ids(**asked: Any) -> list[str]:
        here = sorted(run.id for run in runtime.runs(**asked))
        return here

    assert ids(tags=["even"]) == ["o0", "o2", "o4"]
    assert ids(tags=["even", "odd"]) == []
    assert ids(attributes={"number": 3}) == ["o3"]
    assert ids(attributes={"number": "3"}) == []
    assert ids(attributes={"name": "n3", "number": 3}) == ["o3"]
    assert ids(attributes={"due": DUE + timedelta(2)}) == ["o2"]
    assert ids(attributes=["number>=3"]) == ["o3", "o4"]
    assert ids(attributes=["number>=3"], tags=["even"]) == ["o4"]
    assert ids(state=["completed"]) == []
    assert len(runtime.runs(limit=2)) == 2
    with pytest.raises(BadAttributeError, match="TFY0270"):
        runtime.runs(attributes=["number"])
    with pytest.raises(BadArgumentError, match=r"write \['even'\]"):
        runtime.runs(tags="even")
    runtime.close()
    with connect(tmp_path) as connection:
        assert sorted(run.id for run in connection.runs(tags=["odd"])) == ["o1", "o3"]


def test_what_is_not_allowed_is_an_error_in_the_run_and_at_the_start(runtime: Runtime) -> None:
    run = runtime.submit(tries, id="t")
    bad = "TFY0270"
    assert runtime.wait(run) == [bad, bad, bad, bad, "ok", bad, "ok", bad]
    refused: list[Any] = [{"a b": 1}, {"a": [1]}, {"a": None}, {"a": 2**63}, {1: 1}]
    for attributes in refused:
        with pytest.raises(BadAttributeError, match="TFY0270"):
            runtime.submit(tries, id="u", attributes=attributes)
    with pytest.raises(BadArgumentError):
        runtime.submit(tries, id="u", tags="gold")
    assert len(runtime.runs()) == 1


def test_a_parameter_of_the_same_name_is_given_by_position(runtime: Runtime) -> None:
    with pytest.raises(BadArgumentError, match="by position"):
        runtime.submit(tagged, id="a", tags=["x"])  # type: ignore[call-arg, arg-type]
    run = runtime.submit(tagged, ["x"], id="a")
    assert runtime.wait(run) == ["x"]
    assert only(runtime).tags == []


def test_programs_that_are_run_at_once_have_them_too(tmp_path: Path) -> None:
    given: dict[str, Any] = {"tags": ["gold"], "attributes": {"n": 1}, "deadline": 3600}
    assert tiffany.run(tagged("x"), wal=tmp_path, id="run", **given) == "x"
    assert asyncio.run(tiffany.arun(tagged("y"), wal=tmp_path, id="arun", **given)) == "y"
    with Runtime(wal=tmp_path) as runtime:
        assert runtime.run(tagged("z"), id="runtime", **given) == "z"
        found = runtime.runs(tags=["gold"], attributes={"n": 1}, sort="id")
        assert [run.id for run in found] == ["arun", "run", "runtime"]
        assert all(run.deadline is not None for run in found)
        with pytest.raises(BadArgumentError, match="give the run an `id`"):
            runtime.run(tagged("z"), tags=["gold"])
    with pytest.raises(BadArgumentError, match="are those of durable runs"):
        tiffany.run(tagged("x"), deadline=3)
    with pytest.raises(BadArgumentError, match="are those of durable runs"):
        asyncio.run(tiffany.arun(tagged("x"), attributes={"n": 1}))
    with pytest.raises(BadArgumentError, match=r"did you mean `tags`\?"):
        asyncio.run(tiffany.arun(tagged("x"), tag=["gold"]))  # type: ignore[call-arg]


def test_secrets_are_neither_tags_nor_names(tmp_path: Path) -> None:
    @workflow(name="leaks")
    async def leaks() -> str:
        try:
            await add_tags("sk-0123456789")
        except SecretNameError as error:
            return error.code
        return "ok"

    with Runtime(wal=tmp_path, redact=["pattern sk-[0-9]{10}"]) as runtime:
        assert runtime.wait(runtime.submit(leaks, id="l")) == "TFY0192"
        with pytest.raises(SecretNameError):
            runtime.submit(leaks, id="m", tags=["sk-0123456789"])


@pytest.mark.parametrize("deadline", [0.05, timedelta(milliseconds=50)])
def test_a_run_fails_at_its_deadline(runtime: Runtime, deadline: Any) -> None:
    run = runtime.submit(order, 1, id="o", deadline=deadline)
    at = only(runtime).deadline
    assert at is not None
    with pytest.raises(DeadlinePassedError, match=at.strftime("%Y-%m-%dT%H:%M:%S")):
        runtime.wait(run)
    assert only(runtime).state == "failed"


def test_a_deadline_is_a_moment_too_and_not_a_past_one(runtime: Runtime) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    runtime.submit(order, 1, id="o", deadline=later)
    assert only(runtime).deadline == later
    past = datetime.now(UTC) - timedelta(seconds=1)
    refused: list[Any] = [past, 0, -1, "soon", True, float("nan")]
    for bad in refused:
        with pytest.raises(BadDeadlineError, match="TFY0273"):
            runtime.submit(order, 1, id="p", deadline=bad)
    assert len(runtime.runs()) == 1


def test_a_dict_with_the_reserved_name_is_recorded_all_the_same(runtime: Runtime) -> None:
    run = runtime.submit(tagged, {"$enc": "k"}, id="e")
    assert runtime.wait(run) == {"$enc": "k"}
    assert issubclass(ReservedNameError, ValueError)
    assert tiffany.set_attributes is set_attributes
