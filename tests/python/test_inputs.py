"""The input of a workflow is made what its parameters say, of plain JSON; what cannot be is refused with its place."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import signal
import uuid
from typing import Annotated, Any, Literal, NewType

import pydantic
import pytest
from command_kit import Home
from serve_kit import ask, refused
from test_serve import served, stop
from tiffany.durable._inputs import Unfit, fitted
from tiffany.durable._workflows import Functions


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Item:
    name: str
    size: Size = Size.SMALL
    inside: list[Item] = dataclasses.field(default_factory=list)


Euros = NewType("Euros", int)
TEA = Item("tea")
DAY = datetime.date(2026, 11, 17)


def fit(hint: Any, value: Any, *, checks: bool = True) -> Any:
    """A value as a parameter with this hint gets it."""

    def function(it: Any) -> None: ...

    function.__annotations__ = {"it": hint}
    return fitted(function, {"it": value}, checks=checks)["it"]


@pytest.mark.parametrize(
    ("hint", "given", "got"),
    [
        (Item, {"name": "tea"}, TEA),
        (Item, {"name": "tea", "size": "l"}, Item("tea", Size.LARGE)),
        (Item, {"name": "box", "inside": [{"name": "tea"}]}, Item("box", inside=[TEA])),
        (Item, TEA, TEA),
        (Item | None, {"name": "tea"}, TEA),
        (Item | None, None, None),
        (list[Item], [{"name": "tea"}], [TEA]),
        (dict[str, Item], {"a": {"name": "tea"}}, {"a": TEA}),
        (tuple[Item, int], [{"name": "tea"}, 2], (TEA, 2)),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[int], [1, 1, 2], {1, 2}),
        (Size, "l", Size.LARGE),
        (Size, "LARGE", Size.LARGE),
        (Size, Size.LARGE, Size.LARGE),
        (datetime.date, "2026-11-17", DAY),
        (datetime.date | str, "2026-11-17", "2026-11-17"),
        (uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (decimal.Decimal, 2, decimal.Decimal(2)),
        (pathlib.Path, "a/b", pathlib.Path("a/b")),
        (float, 1, 1),
        (float, 1.0, 1.0),
        (int, 1.0, 1),
        (int, -2e3, -2000),
        (Euros, 5.0, 5),
        (int | None, 1.0, 1),
        (int | float, 1.0, 1.0),
        (list[int], [1.0, 2], [1, 2]),
        (dict[str, int], {"a": 1.0}, {"a": 1}),
        (Euros, 5, 5),
        (Annotated[int, "how many"], 5, 5),
        (Literal["a", "b"], "b", "b"),
        (Any, {"a": [1]}, {"a": [1]}),
        (object, 3, 3),
        (dict, {"a": 1}, {"a": 1}),
        (list, [1, "a"], [1, "a"]),
    ],
)
def test_a_plain_value_becomes_what_is_asked_for(hint: Any, given: Any, got: Any) -> None:
    made = fit(hint, given)
    assert (made, type(made)) == (got, type(got))
    assert fit(hint, given, checks=False) == got


@pytest.mark.parametrize(
    ("hint", "given", "why"),
    [
        (int, "forty", '`it` is a whole number, not "forty"'),
        (int, True, "`it` is a whole number, not true"),
        (int, 1.5, "`it` is a whole number, not 1.5"),
        (int | None, 1.5, "`it` is a whole number or null, not 1.5"),
        (int, float("inf"), "`it` is a whole number, not Infinity"),
        (float, "1", '`it` is a number, not "1"'),
        (str, 1, "`it` is a text, not 1"),
        (bool, 1, "`it` is a bool, not 1"),
        (str, None, "`it` is a text, not null"),
        (int | None, "a", '`it` is a whole number or null, not "a"'),
        (list[int], [1, "a"], '`it[1]` is a whole number, not "a"'),
        (list[int], "a", '`it` is a list, not "a"'),
        (dict[str, int], {"a": "b"}, '`it.a` is a whole number, not "b"'),
        (dict, [1], "`it` is an object, not [1]"),
        (tuple[int, int], [1], "`it` is a list of 2, not [1]"),
        (Literal["a", "b"], "c", '`it` is "a" or "b", not "c"'),
        (datetime.date, {"$date": "2026-11-17"}, '`it` is a date, not {"$date": "2026-11-17"}'),
        (str, ["y" * 99], "`it` is a text, not a list of 103 characters"),
    ],
)
def test_what_is_of_another_type_is_refused_only_from_outside(
    hint: Any, given: Any, why: str
) -> None:
    with pytest.raises(Unfit) as refusal:
        fit(hint, given)
    assert str(refusal.value) == why
    assert fit(hint, given, checks=False) == given


@pytest.mark.parametrize(
    ("hint", "given", "why"),
    [
        (Item, {}, "`it` has no `name`"),
        (Item, {"name": "a", "weight": 1}, "`it` has a `weight`, which Item has not"),
        (Item, "tea", '`it` is an object with the fields of Item, not "tea"'),
        (Size, "m", '`it` is "s" or "l", not "m"'),
        (datetime.date, "soon", '`it` is a date, not "soon"'),
        (decimal.Decimal, "much", '`it` is a Decimal, not "much"'),
    ],
)
@pytest.mark.parametrize("checks", [True, False])
def test_what_cannot_be_made_is_refused_always(
    hint: Any, given: Any, why: str, checks: bool
) -> None:
    with pytest.raises(Unfit) as refusal:
        fit(hint, given, checks=checks)
    assert str(refusal.value) == why


def test_none_is_taken_where_it_is_the_default_and_all_kinds_of_parameters_are_known() -> None:
    def function(a: Any = None, *more: Item, **named: Item) -> None: ...

    function.__annotations__["a"] = int
    plain = {"name": "tea"}
    given = {"a": None, "more": [plain], "named": {"x": plain}}
    assert fitted(function, given, checks=True) == {"a": None, "more": [TEA], "named": {"x": TEA}}


def order(item: Item, count: int = 1) -> Any:
    yield
    return item, count


def test_positions_and_names_are_the_same() -> None:
    for given in ([{"name": "tea"}, 2], {"item": {"name": "tea"}, "count": 2}):
        program = Functions().program(order, given, True)
        assert program.gi_frame.f_locals == {"item": TEA, "count": 2}


class Model(pydantic.BaseModel):
    n: int


class Tags(pydantic.RootModel[list[str]]):
    pass


@pytest.mark.parametrize("given", [[1], 5, None, "tea", {"n": "tea"}])
@pytest.mark.parametrize("hint", [Model, list[Model], Model | int])
def test_what_is_not_a_model_is_refused(hint: Any, given: Any) -> None:
    if hint is not Model and given == 5:
        given = 5.5
    with pytest.raises(Unfit, match=r"^`it"):
        fit(hint, [given] if hint == list[Model] else given)


def test_a_model_says_what_it_is_made_of() -> None:
    assert fit(Model, {"n": 1}) == Model(n=1)
    assert fit(Tags, ["a", "b"]) == Tags(["a", "b"])
    assert fit(Model | None, None) is None
    # A program may do as it likes, and a run that was accepted once is resumed.
    assert fit(Model, 5, checks=False) == 5


def test_a_field_is_checked_as_a_parameter_is() -> None:
    @dataclasses.dataclass
    class Box:
        count: int

    with pytest.raises(Unfit, match=r"`it.count` is a whole number, not 1.5"):
        fit(Box, {"count": 1.5})
    assert fit(Box, {"count": 1}) == Box(1)


PROGRAM = """
from dataclasses import dataclass
from datetime import date

from tiffany import sleep, workflow


@dataclass
class Item:
    name: str
    best_before: date


@workflow(name="order")
async def order(item: Item, count: int = 1) -> str:
    await sleep(0.01)
    return f"{count} of {item.name} until {item.best_before:%d.%m.%Y}"
"""


def test_what_comes_over_the_network_is_plain(tmp_path: pathlib.Path) -> None:
    home = Home(tmp_path)
    home.write("greet.py", PROGRAM)
    with served(home) as daemon:
        runs = json.loads(daemon.line())["url"] + "/api/v1/runs"
        item = {"name": "tea", "best_before": "2026-11-17"}
        # A whole number is one, however JSON writes it.
        ask(runs, {"function": "order", "id": "o-1", "input": {"item": item, "count": 2.0}})
        assert ask(f"{runs}/o-1?wait=30")["value"] == "2 of tea until 17.11.2026"
        assert ask(f"{runs}/o-1/replay", {})["verdict"] == "identical"
        wrong = {"function": "order", "id": "o-2", "input": {"item": item, "count": "two"}}
        told = refused(runs, wrong)
        assert told["code"] == "TFY0035", told
        assert '`count` is a whole number, not "two"' in told["title"], told
        assert '"best_before"' in told["title"], told
        stop(daemon, signal.SIGINT)
