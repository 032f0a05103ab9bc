"""What a workflow is given is told as a JSON Schema, made of its signature; what fits it can be read."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Annotated, Any, Literal, NewType

import pytest
from tiffany import codec, workflow
from tiffany._inputs import fitted
from tiffany._schema import described, schema_of
from tiffany._workflows import Functions

#: A default that no JSON can say.
LOCK = object()


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Item:
    name: str
    count: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)
    inside: Item | None = None


def takes_item(it: Item) -> None: ...


Euros = NewType("Euros", int)


def parameter(hint: Any) -> dict[str, Any]:
    """The schema of a parameter with this hint."""

    def function(it: Any) -> None: ...

    function.__annotations__ = {"it": hint}
    found: dict[str, Any] = schema_of(function)["properties"]["it"]
    return found


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (list, {"type": "array", "items": {}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict, {"type": "object", "additionalProperties": True}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (dict[int, bool], {}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["air", 2], {"enum": ["air", 2]}),
        (Euros, {"type": "integer"}),
        (Annotated[str, "who"], {"type": "string", "description": "who"}),
        ("NotThere", {}),
    ],
)
def test_hints_become_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert parameter(hint) == schema


def test_enums_and_dataclasses_are_described_as_they_are_written() -> None:
    members = parameter(Size)["oneOf"]
    assert [member["title"] for member in members] == ["SMALL", "LARGE"]
    assert [codec.decode(json.dumps(member["const"])) for member in members] == list(Size)
    schema = parameter(Item)
    written = json.loads(codec.encode(Item("tea", tags=["a"])))
    assert written["$dataclass"] == schema["properties"]["$dataclass"]["const"]
    assert set(written) == set(schema["properties"])
    # What has the required names only is enough.
    assert schema["required"] == ["name"]
    assert fitted(lambda it: it, {"it": {"name": "tea"}}, checks=True) == {"it": {"name": "tea"}}
    assert fitted(takes_item, {"it": {"name": "tea"}}, checks=True) == {"it": Item("tea")}


def test_defaults_names_and_the_docstring_are_there() -> None:
    @workflow(name="schema order")
    async def order(
        item: str, size: Size = Size.LARGE, *, lock: Any = LOCK, count: int = 2
    ) -> None:
        """Orders something."""

    listed = {name: described for name, _, *described in Functions().listed()}
    text, doc = listed["schema order"]
    assert text is not None
    schema = json.loads(text)
    assert doc == "Orders something."
    assert schema["$schema"].endswith("2020-12/schema")
    assert (schema["required"], schema["additionalProperties"]) == (["item"], False)
    assert schema["properties"]["count"] == {"type": "integer", "default": 2}
    assert schema["properties"]["size"]["default"] == json.loads(codec.encode(Size.LARGE))
    # A default that cannot be written down is not shown, and the parameter is not required.
    assert schema["properties"]["lock"] == {}


def test_what_cannot_be_described_can_still_be_started() -> None:
    class Odd:
        def __call__(self) -> None: ...

        @property
        def __signature__(self) -> None:
            raise ValueError("no")

    assert described(Odd())[0] is None
