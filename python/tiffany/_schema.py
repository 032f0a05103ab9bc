"""What a workflow takes, as a JSON Schema (2020-12) made of its signature: for forms by which people start runs.

It describes the input as it is written down (see ``tiffany.codec``), so that what fits it can be read. What it does not know it leaves open.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import json
import types
import typing
from collections import abc
from collections.abc import Callable
from typing import Any

from tiffany import _core
from tiffany._names import names

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)
_TAGGED: dict[Any, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}


@functools.lru_cache(maxsize=1024)
def described(function: Callable[..., Any]) -> tuple[str | None, str | None]:
    """The schema of what a workflow is given, as JSON, and what its author says of it.

    >>> def order(item: str, count: int = 1): "Orders something."
    >>> schema, doc = described(order)
    >>> json.loads(schema)["properties"]
    {'item': {'type': 'string'}, 'count': {'type': 'integer', 'default': 1}}
    >>> json.loads(schema)["required"], doc
    (['item'], 'Orders something.')
    """
    try:
        text = json.dumps(schema_of(function))
    except Exception:
        # Hints can be anything; a workflow without a form can still be started.
        text = None
    doc = inspect.getdoc(function)
    if inspect.isclass(function) and function.__doc__ is None:
        doc = None
    return text, doc


def example(function: Callable[..., Any]) -> str:
    """An input that a workflow takes, as one would type it: what has to be there.

    >>> def order(item: str, count: int, gift: bool = False): ...
    >>> example(order)
    '{"item": "text", "count": 1}'
    >>> def nothing(): ...
    >>> example(nothing)
    '{}'
    """
    try:
        schema = schema_of(function)
        return json.dumps(
            {name: _example(schema["properties"][name]) for name in schema["required"]}
        )
    except Exception:
        # Hints can be anything.
        return "{}"


_EXAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
}


def _example(schema: dict[str, Any]) -> Any:
    """A value that fits a schema."""
    if "const" in schema:
        return schema["const"]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _example(schema[several][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        return {name: _example(properties[name]) for name in schema.get("required", [])}
    if schema.get("type") == "array":
        return [_example(part) for part in schema.get("prefixItems", [])]
    return _EXAMPLES.get(schema.get("type", ""))


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema of an object with the parameters of a function."""
    signature = inspect.signature(function)
    hints = hints_of(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in signature.parameters.items():
        hint = hints.get(name, Any)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            properties[name] = {"type": "array", "items": _schema(hint, ()), "default": []}
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            properties[name] = {
                "type": "object",
                "additionalProperties": _schema(hint, ()),
                "default": {},
            }
            continue
        properties[name] = _with_default(_schema(hint, ()), parameter.default)
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {
        "$schema": _DIALECT,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def hints_of(function: Any) -> dict[str, Any]:
    """What a function or a class says of its parameters or fields; nothing if that cannot be read."""
    inner = function if inspect.isclass(function) else inspect.unwrap(function)
    try:
        return typing.get_type_hints(inner, include_extras=True)
    except Exception:
        # A name in a hint that is only there for a type checker, say.
        return {}


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    if default is inspect.Parameter.empty or default is dataclasses.MISSING:
        return schema
    try:
        return {**schema, "default": _written(default)}
    except Exception:
        # It has a default that cannot be shown.
        return schema


def _written(value: Any) -> Any:
    """A value in the form in which it is written down."""
    return json.loads(_core._encode(value))


def _schema(hint: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    if isinstance(hint, type) and hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is None:
        return {"type": "null"}
    if isinstance(hint, typing.NewType):
        return _schema(hint.__supertype__, inside)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        texts = [text for text in args[1:] if isinstance(text, str)]
        about = {"description": texts[0]} if texts else {}
        return {**_schema(args[0], inside), **about}
    if origin is typing.Literal:
        return {"enum": [_written(value) for value in args]}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(arg, inside) for arg in args]}
    if isinstance(hint, type) and origin is None and hint not in inside:
        if issubclass(hint, enum.Enum):
            members = [{"const": _written(member), "title": member.name} for member in hint]
            return {"oneOf": members}
        if dataclasses.is_dataclass(hint):
            return _dataclass(hint, (*inside, hint))
    return _collection(origin or hint, args, inside)


def _collection(kind: Any, args: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    if kind in _LISTS:
        return {"type": "array", "items": _schema(args[0], inside) if args else {}}
    if kind in _OBJECTS:
        # With other names than texts it is written as pairs.
        if args and args[0] is not str:
            return {}
        return {
            "type": "object",
            "additionalProperties": _schema(args[1], inside) if args else True,
        }
    tag = _TAGGED.get(kind) if isinstance(kind, type) else None
    if tag is None:
        return {}
    items: dict[str, Any] = {"type": "array"}
    if kind is tuple and args and args[-1] is not Ellipsis:
        parts = [_schema(arg, inside) for arg in args if arg != ()]
        items |= {"prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    elif args:
        items |= {"items": _schema(args[0], inside)}
    return {
        "type": "object",
        "properties": {tag: items},
        "required": [tag],
        "additionalProperties": False,
    }


def _dataclass(cls: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    hints = hints_of(cls)
    properties: dict[str, Any] = {
        "$dataclass": {"const": names(cls.__module__, cls.__qualname__)[0]}
    }
    required: list[str] = []
    for field in dataclasses.fields(cls):
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        elif default is dataclasses.MISSING:
            required.append(field.name)
        schema = _schema(hints.get(field.name, Any), inside)
        properties[field.name] = _with_default(schema, default)
    return {
        "title": cls.__name__,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
