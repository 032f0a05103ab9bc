"""`crash_everywhere`: workflows that stand it, and some that do not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
import tiffany
from tiffany import step, workflow
from tiffany.calls import CreateExternalPromise, Gather, ReceiveMessage, Sleep, Spawn, Wait
from tiffany.testing import Seen, crash_everywhere

Steps = Generator[Any, Any, Any]


@dataclass
class Bank:
    """What the steps act upon."""

    paid: dict[str, int] = field(default_factory=dict)
    calls: int = 0


BANK = Bank()


def new_bank() -> Bank:
    global BANK
    BANK = Bank()
    return BANK


@step
def price(item: str) -> int:
    return len(item)


@step
def pay(amount: int) -> str:
    """It may be repeated: the key says that it was done before."""
    BANK.calls += 1
    BANK.paid[tiffany.attempt().key] = amount
    return f"paid {amount}"


@step(kind="at_most_once")
def launch() -> str:
    BANK.calls += 1
    return "launched"


@step
async def notify(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()


@workflow
def buy(item: str) -> Steps:
    amount = yield price(item)
    yield Sleep(3600)
    return (yield pay(amount))


def test_a_workflow_that_stands_it() -> None:
    def paid_once(seen: Seen) -> None:
        assert list(seen.world.paid.values()) == [3]
        assert seen.value == "paid 3"
        assert seen.error is None
        assert 1 <= seen.times(pay) <= 1 + seen.crashes
        assert {attempt.kind for attempt in seen.attempts} == {"idempotent"}

    report = crash_everywhere(buy, "tea", world=new_bank, holds=paid_once, at_most=150)
    assert report.simulations == 150
    assert report.crashes >= 100
    assert report.steps == 2


def test_a_program_will_do_as_well() -> None:
    assert crash_everywhere(buy("tea"), at_most=20).simulations == 20
    with pytest.raises(tiffany.errors.BadArgumentError, match="has its arguments already"):
        crash_everywhere(buy("tea"), "coffee")


def test_without_a_world_its_log_is_cut_after_every_record() -> None:
    with_world = crash_everywhere(price_only, "tea", world=new_bank, faults=False)
    without = crash_everywhere(price_only, "tea", faults=False)
    assert without.simulations > with_world.simulations


@workflow
def price_only(item: str) -> Steps:
    return (yield price(item))


@workflow
async def everything() -> Any:
    """Tasks, a promise, a message, an async step, something that is done once at most."""
    promise = await tiffany.create_external_promise()
    approved = await promise.future
    tasks = [await Spawn(price_only("x" * n)) for n in range(3)]
    prices = await Gather(tasks)
    message = await ReceiveMessage("go")
    said = await notify(message["text"])
    return approved, prices, said, await launch()


def test_promises_messages_and_async_steps() -> None:
    def once(seen: Seen) -> None:
        assert seen.times(launch) <= 1

    report = crash_everywhere(
        everything,
        answer=lambda number: ("approved", number),
        messages=[(2.5, "go", {"text": "hello"})],
        holds=once,
        at_most=60,
    )
    assert (report.simulations, report.steps) == (60, 5)


@workflow
def refused() -> Steps:
    promise = yield CreateExternalPromise()
    try:
        return (yield Wait(promise.future))
    except Exception as error:
        return f"refused: {error}"


def test_an_answer_may_be_an_exception() -> None:
    said = []

    def answer(number: int) -> Any:
        raise PermissionError("not you")

    def look(seen: Seen) -> None:
        said.append(seen.value)

    crash_everywhere(refused, answer=answer, holds=look, at_most=5)
    assert len(set(said)) == 1
    assert "PermissionError: not you" in said[0]


COUNTED: list[int] = []


@workflow
def counts() -> Steps:
    """It keeps what it should not."""
    COUNTED.append(1)
    yield price("tea")
    return len(COUNTED)


@workflow
def rolls() -> Steps:
    return (yield price("x" * random.randrange(1_000_000)))


def test_a_workflow_that_keeps_something_in_a_global_does_not_stand_it() -> None:
    with pytest.raises(tiffany.errors.NotCrashProofError) as caught:
        crash_everywhere(counts)
    text = str(caught.value)
    assert caught.value.code == "TFY0058"
    assert "the outcome of `crashed` is another" in text
    plan = text.split('only="')[1].split('"')[0]
    with pytest.raises(tiffany.errors.NotCrashProofError, match=plan.replace("+", r"\+")):
        crash_everywhere(counts, only=plan)


def test_nor_does_one_with_chance_of_its_own() -> None:
    with pytest.raises(tiffany.errors.NotCrashProofError):
        crash_everywhere(rolls)


@step
def pay_blindly(amount: int) -> int:
    """It pays again and again, and nobody knows of the first time."""
    BANK.calls += 1
    return amount


@workflow
def buys_blindly() -> Steps:
    return (yield pay_blindly(3))


def test_a_step_that_acts_twice_is_found_by_what_must_hold() -> None:
    def once(seen: Seen) -> None:
        assert seen.world.calls == 1, f"paid {seen.world.calls} times"

    with pytest.raises(tiffany.errors.NotCrashProofError, match="paid 2 times"):
        crash_everywhere(buys_blindly, world=new_bank, holds=once)


@workflow
def races() -> Steps:
    first = yield Spawn(price_only("a"))
    second = yield Spawn(nap())
    return (yield tiffany.calls.Race(first, second)).value


def nap() -> Steps:
    yield Sleep(0.015)
    return "late"


def test_a_workflow_whose_outcome_depends_on_time_may_differ() -> None:
    def one_of_them(seen: Seen) -> None:
        assert seen.value in (1, "late")

    crash_everywhere(races, may_differ=True, holds=one_of_them, at_most=100)


@workflow
def fails() -> Steps:
    yield price("tea")
    raise ValueError("so it is")


def test_a_workflow_that_fails_fails_alike() -> None:
    def look(seen: Seen) -> None:
        assert seen.error is not None
        assert "so it is" in seen.error
        assert seen.value is None

    crash_everywhere(fails, holds=look, at_most=40)


def test_what_the_test_s_own_functions_raise_is_raised() -> None:
    def broken(seen: Seen) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        crash_everywhere(buy, "tea", holds=broken)

    def no_world() -> Bank:
        raise OSError("no world")

    with pytest.raises(OSError, match="no world"):
        crash_everywhere(buy, "tea", world=no_world)


def test_ctrl_c_ends_it() -> None:
    def interrupted(seen: Seen) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crash_everywhere(buy, "tea", holds=interrupted)


def test_bad_input() -> None:
    with pytest.raises(tiffany.errors.BadArgumentError):
        crash_everywhere(price)
    with pytest.raises(tiffany.errors.BadArgumentError):
        crash_everywhere(buy, "tea", only="nonsense")
    with pytest.raises(tiffany.errors.BadArgumentError):
        crash_everywhere(3)
    with pytest.raises(tiffany.errors.NotSerializableError):
        crash_everywhere(buy, object())
    with pytest.raises(TypeError, match="speed"):
        crash_everywhere(buy, "tea", speed=3)  # type: ignore[call-arg]
