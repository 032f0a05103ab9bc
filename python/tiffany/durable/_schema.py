"""JSON Schemas (2020-12) of workflow inputs, made from function signatures, for forms that start
runs.

A schema describes the plain JSON that ``tiffany.durable._inputs`` converts to the arguments. Parts with
unknown types are left open.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import inspect
import json
import math
import pathlib
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable
from typing import Any

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Iterable, abc.Collection)
_OBJECTS = (dict, abc.Mapping, abc.MutableMapping)
_SETS = (set, frozenset)
_TEXTS: dict[Any, dict[str, Any]] = {
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string"},
    pathlib.Path: {"type": "string"},
}


@functools.lru_cache(maxsize=1024)
def described(function: Callable[..., Any]) -> tuple[str | None, str | None]:
    """Returns the schema of a workflow's input as JSON, and the workflow's description.

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
        # Hints can be any object; a workflow without a schema can still be started.
        text = None
    doc = inspect.getdoc(function)
    if inspect.isclass(function) and function.__doc__ is None:
        doc = None
    return text, doc


def example(function: Callable[..., Any]) -> str:
    """Returns an example input of a workflow, as one would type it, with the required parts.

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
        # Hints can be any object.
        return "{}"


_EXAMPLES: dict[str, Any] = {
    "string": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
}


def _example(schema: dict[str, Any]) -> Any:
    """Returns a value that fits a schema."""
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
    """Returns the schema of an object with the parameters of a function."""
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
    """Returns the type hints of a function's parameters or a class's fields; empty if they cannot
    be read.
    """
    inner = function if inspect.isclass(function) else inspect.unwrap(function)
    try:
        return typing.get_type_hints(inner, include_extras=True)
    except Exception:
        # For example, the hint contains a name that is only imported for type checkers.
        return {}


def _with_default(schema: dict[str, Any], default: Any) -> dict[str, Any]:
    if default is inspect.Parameter.empty or default is dataclasses.MISSING:
        return schema
    try:
        return {**schema, "default": _plain(default)}
    except Exception:
        # The default cannot be expressed in JSON.
        return schema


def _plain(value: Any) -> Any:
    """Returns a value as plain JSON, which ``tiffany.durable._inputs`` converts back."""
    if isinstance(value, enum.Enum):
        return _member(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(part) for part in value), key=json.dumps)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.Path)):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        return {name: _plain(getattr(value, name)) for name in fields}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError


def _member(member: enum.Enum) -> Any:
    """Returns a member of an enum by its value, or by its name if the value is not plain."""
    value = member.value
    return value if isinstance(value, (str, int, float)) else member.name


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
        return {"enum": [_plain(value) for value in args]}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(arg, inside) for arg in args]}
    if isinstance(hint, type) and origin is None and hint not in inside:
        return _class(hint, inside)
    return _collection(origin or hint, args, inside)


def _class(cls: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    if issubclass(cls, enum.Enum):
        return {"oneOf": [{"const": _member(member), "title": member.name} for member in cls]}
    if cls in _TEXTS:
        return _TEXTS[cls]
    if dataclasses.is_dataclass(cls):
        return _dataclass(cls, (*inside, cls))
    # A pydantic model; its class is not imported for this check.
    of_model = getattr(cls, "model_json_schema", None)
    if of_model is not None:
        schema = of_model()
        inlined: dict[str, Any] = _inlined(schema, schema.pop("$defs", {}), ())
        return inlined
    return _collection(cls, (), inside)


def _inlined(part: Any, defs: dict[str, Any], inside: tuple[str, ...]) -> Any:
    """Inlines the definitions of a schema, so that forms need not look them up. Recursive
    references are left open.
    """
    if isinstance(part, list):
        return [_inlined(one, defs, inside) for one in part]
    if not isinstance(part, dict):
        return part
    name = str(part.get("$ref", "")).removeprefix("#/$defs/")
    if name not in defs:
        return {key: _inlined(value, defs, inside) for key, value in part.items()}
    meant = {} if name in inside else _inlined(defs[name], defs, (*inside, name))
    beside = {key: value for key, value in part.items() if key != "$ref"}
    return {**meant, **_inlined(beside, defs, inside)}


def _collection(kind: Any, args: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    if kind in _LISTS:
        return {"type": "array", "items": _schema(args[0], inside) if args else {}}
    if kind in _SETS:
        items = _schema(args[0], inside) if args else {}
        return {"type": "array", "items": items, "uniqueItems": True}
    if kind is tuple:
        return _tuple(args, inside)
    if kind in _OBJECTS:
        # Names in JSON are strings.
        if args and args[0] is not str:
            return {}
        return {
            "type": "object",
            "additionalProperties": _schema(args[1], inside) if args else True,
        }
    return {}


def _tuple(args: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    if not args or args[-1] is Ellipsis:
        return {"type": "array", "items": _schema(args[0], inside) if args else {}}
    parts = [_schema(arg, inside) for arg in args if arg != ()]
    return {
        "type": "array",
        "prefixItems": parts,
        "minItems": len(parts),
        "maxItems": len(parts),
    }


def _dataclass(cls: Any, inside: tuple[Any, ...]) -> dict[str, Any]:
    hints = hints_of(cls)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
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
