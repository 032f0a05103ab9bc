"""What a workflow is given is told as a JSON Schema, made of its signature; what fits it can be read."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Annotated, Any, Literal, NewType

import pydantic
import pytest
from tiffany import workflow
from tiffany.durable._inputs import fitted
from tiffany.durable._schema import described, schema_of
from tiffany.durable._workflows import Functions

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
PAIR = {
    "type": "array",
    "prefixItems": [{"type": "integer"}, {"type": "string"}],
    "minItems": 2,
    "maxItems": 2,
}


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
        (tuple[int, str], PAIR),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "string"}),
    ],
)
def test_hints_become_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert parameter(hint) == schema


def test_enums_and_dataclasses_are_described_as_plain_json() -> None:
    members = parameter(Size)["oneOf"]
    assert members == [{"const": "s", "title": "SMALL"}, {"const": "l", "title": "LARGE"}]
    odd = enum.Enum("odd", {"PAIR": (1, 2)})
    assert parameter(odd)["oneOf"] == [{"const": "PAIR", "title": "PAIR"}]
    schema = parameter(Item)
    assert list(schema["properties"]) == ["name", "count", "tags", "inside"]
    # What has the required names only is enough.
    assert schema["required"] == ["name"]
    assert fitted(lambda it: it, {"it": {"name": "tea"}}, checks=True) == {"it": {"name": "tea"}}
    assert fitted(takes_item, {"it": {"name": "tea"}}, checks=True) == {"it": Item("tea")}


class Address(pydantic.BaseModel):
    street: str
    beside: Address | None = None


class Customer(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName", min_length=1)
    home: Address
    sizes: list[Size] = [Size.SMALL]


def takes_customer(it: Customer = Customer(fullName="Ada", home=Address(street="A"))) -> None: ...  # noqa: B008


def test_a_pydantic_model_is_described_in_place() -> None:
    schema = parameter(Customer)
    assert "$ref" not in json.dumps(schema) and "$defs" not in schema
    assert schema["required"] == ["fullName", "home"]
    assert schema["properties"]["fullName"]["minLength"] == 1
    home = schema["properties"]["home"]
    assert home["properties"]["street"] == {"title": "Street", "type": "string"}
    # An address beside an address is left open where it refers to itself.
    assert {"type": "null"} in home["properties"]["beside"]["anyOf"]
    assert schema["properties"]["sizes"]["items"]["enum"] == ["s", "l"]
    plain = {"fullName": "Ada", "home": {"street": "A"}}
    (made,) = fitted(takes_customer, {"it": plain}, checks=True).values()
    assert made == Customer(fullName="Ada", home=Address(street="A"))
    default = schema_of(takes_customer)["properties"]["it"]["default"]
    assert fitted(takes_customer, {"it": default}, checks=True) == {"it": made}
    listed = parameter(list[Customer] | None)["anyOf"][0]
    assert listed == {"type": "array", "items": schema}


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
    assert schema["properties"]["size"]["default"] == "l"
    # A default that cannot be written down is not shown, and the parameter is not required.
    assert schema["properties"]["lock"] == {}


def test_what_cannot_be_described_can_still_be_started() -> None:
    class Odd:
        def __call__(self) -> None: ...

        @property
        def __signature__(self) -> None:
            raise ValueError("no")

    assert described(Odd())[0] is None
