"""Durable runs: started under an id, resumed, over; and what is said of those that cannot be."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import Ledger, cut, lines, records, types
from tiffany import Runtime, step, workflow
from tiffany.calls import Gather, Now, Random, Sleep, Spawn
from tiffany.durable import Run
from tiffany.errors import (
    BadArgumentError,
    OtherRunError,
    OutsideTaskError,
    UnreadableError,
    UnregisteredError,
)


@dataclass
class Order:
    id: str
    items: list[str]


@step
def work(n: int) -> int:
    return n * n


@step
async def async_work(n: int) -> int:
    await asyncio.sleep(0)
    return n * n


def generator(order: Order, count: int = 3) -> Any:
    done = []
    for n in range(count):
        done.append((yield work(n)))
    yield Sleep(0.001)
    return order, done, (yield Random()), (yield Now())


async def coroutine(order: Order, count: int = 3) -> Any:
    done = [await async_work(n) for n in range(count)]
    await Sleep(0.001)
    return order, done, await Random(), await Now()


def child(n: int) -> Any:
    return (yield work(n))


def family(count: int) -> Any:
    tasks = []
    for n in range(count):
        tasks.append((yield Spawn(child(n))))
    return (yield Gather(tasks))


@pytest.mark.parametrize("program", [generator, coroutine])
def test_a_run_gives_its_value_and_again_when_it_is_over(program: Any, tmp_path: Path) -> None:
    order = Order("o", ["tea"])
    first = tiffany.run(program(order), wal=tmp_path, id="a")
    assert first[:2] == (Order("o", ["tea"]), [0, 1, 4])
    before = lines(tmp_path)
    assert tiffany.run(program(order), wal=tmp_path, id="a") == first
    assert lines(tmp_path) == before


@pytest.mark.parametrize("program", [generator, coroutine, family])
def test_it_goes_on_from_every_line_of_its_log_with_equal_values(
    program: Any, tmp_path: Path
) -> None:
    given = (3,) if program is family else (Order("o", []),)
    value = tiffany.run(program(*given), wal=tmp_path / "whole", id="a")
    whole = lines(tmp_path / "whole")
    assert len(whole) > 8
    for count in range(1, len(whole)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            there = cut(tmp_path / "whole", count, tmp_path / str(count))
            again = tiffany.run(program(*given), wal=there, id="a")
        # What the log has of them is as it was; what it has not is drawn and read again.
        if program is family:
            assert again == value
        else:
            assert again[:3] == value[:3]


def test_its_name_and_its_input_are_in_the_log(tmp_path: Path) -> None:
    tiffany.run(generator(Order("o", ["tea"]), count=1), wal=tmp_path, id="a")
    start = records(tmp_path)[0]
    assert start["type"] == "RunStart"
    assert start["id"] == "a"
    assert start["function"] == f"{__name__}:generator"
    assert start["input"]["count"] == 1
    assert "tea" in str(start["input"]["order"])
    assert start["language"]["name"] == "python"
    made = [record for record in records(tmp_path) if record.get("name") == "work"]
    assert made[0]["about"] == {"input": {"n": 0}}
    assert __file__ in made[0]["at"]


def test_the_same_id_with_another_input_or_function_is_an_error(tmp_path: Path) -> None:
    tiffany.run(family(1), wal=tmp_path, id="a")
    with pytest.raises(OtherRunError, match="another input"):
        tiffany.run(family(2), wal=tmp_path, id="a")
    with pytest.raises(OtherRunError, match="another function"):
        tiffany.run(child(1), wal=tmp_path, id="a")


def test_an_id_that_is_the_uuid_of_another_run_is_an_error(tmp_path: Path) -> None:
    tiffany.run(family(1), wal=tmp_path, id="a")
    (log,) = (tmp_path / "wal").glob("*.wal")
    for uuid in (log.stem, log.stem.upper()):
        with pytest.raises(OtherRunError, match="UUID of another run"):
            tiffany.run(family(1), wal=tmp_path, id=uuid)


def test_what_a_program_cannot_be(tmp_path: Path) -> None:
    def local() -> Any:
        yield

    begun = child(1)
    next(begun)
    with pytest.raises(UnregisteredError, match="TFY0038"):
        tiffany.run(local(), wal=tmp_path, id="a")
    with pytest.raises(BadArgumentError, match="started before"):
        tiffany.run(begun, wal=tmp_path, id="a")
    with pytest.raises(BadArgumentError, match="a generator or a coroutine"):
        tiffany.run(child, wal=tmp_path, id="a")  # type: ignore[arg-type]
    with pytest.raises(BadArgumentError, match="without id"):
        tiffany.run(child(1), wal=tmp_path)
    with pytest.raises(BadArgumentError, match="without wal"):
        tiffany.run(child(1), id="a")
    with pytest.raises(BadArgumentError, match="is a text"):
        tiffany.run(child(1), wal=tmp_path, id=7)  # type: ignore[arg-type]
    with pytest.raises(tiffany.errors.NotSerializableError, match=r"at `\.n`.*TFY0034"):
        tiffany.run(child(object()), wal=tmp_path, id="a")  # type: ignore[arg-type]


def test_a_function_whose_name_is_another_s_now_cannot_be_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = child(1)
    monkeypatch.setitem(globals(), "child", family)
    with pytest.raises(UnregisteredError, match="child"):
        tiffany.run(program, wal=tmp_path, id="a")


def test_a_run_is_the_same_however_its_arguments_were_given(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(generator, Order("o", []), id="a")
        value = runtime.run(generator(order=Order("o", []), count=3), id="a")
        assert runtime.wait(run) == value


def unwritable() -> Any:
    yield
    return {"deep": [object()]}


def test_a_value_that_cannot_be_written_down_fails_the_run(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(tiffany.errors.NotSerializableError, match=r"\.deep\[0\]"):
            tiffany.run(unwritable(), wal=tmp_path, id="a")
    assert types(tmp_path)[-1] == "TaskAbort"


class Refused(Exception):
    def __init__(self, why: str, code: int) -> None:
        super().__init__(why, code)
        self.code = code


def failing() -> Any:
    yield
    raise Refused("no", 7)


def test_a_failed_run_raises_its_exception_live_and_when_it_is_over(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(Refused) as raised:
            tiffany.run(failing(), wal=tmp_path, id="a")
        assert raised.value.args == ("no", 7)
        assert raised.value.code == 7


def unfinished() -> Any:
    yield Sleep(3600)


def test_others_go_on_where_their_function_is_found_and_stay_paused_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Runtime(wal=tmp_path) as runtime:
        runtime.submit(unfinished, id="found")
        run = runtime.submit(gone, id="gone")
        runtime.flush()
    monkeypatch.delitem(globals(), "gone")
    with pytest.warns(
        tiffany.errors.PausedRunWarning, match="no function `.*test_durable_runs:gone`"
    ):
        runtime = Runtime(wal=tmp_path)
    with runtime:
        (paused,) = runtime.paused()
        assert paused.code == "TFY0038"
        assert paused.run == run.uuid
        with pytest.raises(UnregisteredError):
            runtime.wait("gone")


def gone() -> Any:
    yield Sleep(3600)


@workflow(name="greet")
def greet(who: str, *more: str, loud: bool = False, **rest: int) -> Any:
    yield
    return who, more, loud, rest


def test_workflows_have_names_and_any_parameters(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        submit: Any = runtime.submit
        one: Run[Any] = submit(greet, "a", "b", "c", loud=True, x=1, id="one")
        assert runtime.submit(greet("a", "b", "c", loud=True, x=1), id="one") == one
        two: Run[Any] = runtime.submit("greet", "a", "b", "c", loud=True, x=1, id="two")
        expected = ("a", ("b", "c"), True, {"x": 1})
        assert runtime.wait(one) == runtime.wait(two) == runtime.wait("two") == expected
        assert runtime.run(greet("a", "b", "c", loud=True, x=1), id="one") == expected
        assert runtime.is_finished(one)
        assert runtime.wait(one.uuid) == expected
        with pytest.raises(tiffany.errors.BadArgumentError, match=r"greet\(\): missing .* 'who'"):
            submit(greet, id="three")
        with pytest.raises(
            tiffany.errors.BadArgumentError, match="a program has its arguments already"
        ):
            submit(greet("a"), "b", id="three")
        with pytest.raises(UnregisteredError, match="no function `nobody`"):
            runtime.submit("nobody", id="four")
        # Only what was made a workflow can be started by name.
        with pytest.raises(UnregisteredError):
            runtime.submit(f"{__name__}:child", 1, id="five")


def test_what_cannot_be_a_workflow() -> None:
    with pytest.raises(BadArgumentError, match="is not a workflow"):
        workflow(len)

    def other() -> Any:
        yield

    with pytest.raises(BadArgumentError, match="two workflows are called 'greet'"):
        workflow(name="greet")(other)


def changed(a: int) -> Any:
    yield Sleep(3600)


def test_an_input_that_does_not_fit_any_more_pauses_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Runtime(wal=tmp_path) as runtime:
        runtime.submit(changed, 1, id="a")
        runtime.flush()

    def now(b: int) -> Any:
        yield Sleep(3600)

    monkeypatch.setitem(globals(), "changed", now)
    with pytest.warns(tiffany.errors.PausedRunWarning, match="no parameter `a`"):
        runtime = Runtime(wal=tmp_path)
    with runtime, pytest.raises(UnreadableError):
        runtime.wait("a")


def test_outside_a_runtime_a_call_is_an_error() -> None:
    async def awaiting() -> None:
        await async_work(1)

    for program in (awaiting(), coroutine(Order("o", []))):
        with pytest.raises(OutsideTaskError, match=r"tiffany\.run"):
            asyncio.run(program)
    with pytest.raises(OutsideTaskError, match="attempt"):
        tiffany.attempt()


def test_a_run_that_is_not_durable_may_run_beside_those_that_are(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        assert runtime.run(family(3)) == [0, 1, 4]
        assert runtime.run(family(2), id="a") == [0, 1]


def shielded(ledger: str) -> Any:
    try:
        yield nested(ledger)
    finally:
        Ledger(ledger).write("outer")


def nested(ledger: str) -> Any:
    try:
        yield Spawn(sleeper(ledger))
        yield Sleep(3600)
    finally:
        Ledger(ledger).write("inner")


async def sleeper(ledger: str) -> None:
    try:
        await Sleep(3600)
    finally:
        Ledger(ledger).write("child")


def test_what_is_unfinished_is_left_and_not_unwound(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    for _ in range(2):
        with Runtime(wal=tmp_path / "wal") as runtime:
            run = runtime.submit(shielded, str(ledger.path), id="a")
            runtime.flush()
            runtime.run(family(2))
        assert ledger.read() == []
    with Runtime(wal=tmp_path / "wal") as runtime:
        runtime.cancel(run)
        with pytest.raises(tiffany.errors.TaskCancelledError):
            runtime.wait(run)
    assert sorted(ledger.read()) == ["child", "inner", "outer"]


def test_a_runtime_is_closed_once_and_used_by_its_thread(tmp_path: Path) -> None:
    runtime = Runtime(wal=tmp_path)
    runtime.close()
    runtime.close()
    with pytest.raises(tiffany.TiffanyError, match="closed"):
        runtime.submit(greet, "a", id="a")
    with Runtime(wal=tmp_path), pytest.raises(tiffany.TiffanyError, match="TFY"):
        Runtime(wal=tmp_path)
    with Runtime() as runtime, pytest.raises(tiffany.errors.LogFailedError, match="no log"):
        runtime.submit(greet, "a", id="a")


def test_only_outward_calls_are_recorded_if_that_is_asked_for(tmp_path: Path) -> None:
    order = Order("o", [])
    every = tiffany.run(generator(order), wal=tmp_path / "every", id="a")
    outward = tiffany.run(generator(order), wal=tmp_path / "outward", id="a", record="outward")
    assert every[1] == outward[1]
    assert records(tmp_path / "outward")[0]["recording"] == "outward"
    with pytest.raises(BadArgumentError, match="every"):
        Runtime(record="all")  # type: ignore[arg-type]
