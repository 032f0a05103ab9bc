"""Conversion of a workflow's input to the types of its parameters.

Input from outside is plain JSON. Where a parameter is a dataclass, an enum, a date or similar, the
plain form is converted to it; values that Python itself recorded already have their type and are
left unchanged. Types are checked only for requests from outside: a program that starts its own runs
may pass anything, and a resumed run was accepted before.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import pathlib
import types
import typing
import uuid
from collections import abc
from collections.abc import Callable
from typing import Any

from tiffany.durable._schema import hints_of

_PLAIN: dict[Any, str] = {str: "a text", int: "a whole number", float: "a number", bool: "a bool"}
_LISTS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Iterable: list,
    abc.Collection: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
}
_OF_TEXT: dict[Any, Callable[[str], Any]] = {
    datetime.datetime: datetime.datetime.fromisoformat,
    datetime.date: datetime.date.fromisoformat,
    datetime.time: datetime.time.fromisoformat,
    uuid.UUID: uuid.UUID,
    decimal.Decimal: decimal.Decimal,
    pathlib.Path: pathlib.Path,
}


class Unfit(Exception):
    """Why a value does not fit a parameter."""


def fitted(function: Callable[..., Any], given: dict[str, Any], *, checks: bool) -> dict[str, Any]:
    """Converts plain values to the arguments of a function.

    >>> @dataclasses.dataclass
    ... class Item:
    ...     name: str
    ...     day: datetime.date
    >>> def order(item: Item, count: int = 1): ...
    >>> fitted(order, {"item": {"name": "tea", "day": "2026-11-17"}}, checks=True)
    {'item': Item(name='tea', day=datetime.date(2026, 11, 17))}
    >>> fitted(order, {"item": {"name": "tea", "day": "2026-11-17"}, "count": "two"}, checks=True)
    Traceback (most recent call last):
        ...
    tiffany.durable._inputs.Unfit: `count` is a whole number, not "two"
    >>> fitted(order, {"item": {"name": "tea"}}, checks=True)
    Traceback (most recent call last):
        ...
    tiffany.durable._inputs.Unfit: `item` has no `day`
    """
    hints = hints_of(function)
    parameters = inspect.signature(function).parameters
    fit = _Fit(checks=checks)
    arguments: dict[str, Any] = {}
    for name, value in given.items():
        hint, parameter = hints.get(name, Any), parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            hint = list[hint]  # type: ignore[valid-type]
        elif parameter.kind is parameter.VAR_KEYWORD:
            hint = dict[str, hint]  # type: ignore[valid-type]
        # `= None` makes the parameter optional, whatever its hint says.
        is_none = value is None and parameter.default is None
        try:
            arguments[name] = value if is_none else fit.value(hint, value, name)
        except Unfit:
            raise
        except BaseException as error:
            # A validator may raise any exception, so the message names the parameter.
            if not checks:
                raise
            raise Unfit(f"`{name}` was refused: {_told(error)}") from None
    return arguments


def _told(error: BaseException) -> str:
    """Returns the text of an exception in a form that can be written as JSON."""
    try:
        text = str(error)
    except Exception:
        text = ""
    text = text.encode(errors="backslashreplace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _Fit:
    """Converts values to the types given by hints."""

    def __init__(self, *, checks: bool) -> None:
        self.checks = checks

    def value(self, hint: Any, value: Any, place: str) -> Any:
        if isinstance(hint, typing.NewType):
            return self.value(hint.__supertype__, value, place)
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self.value(args[0], value, place)
        if origin in (typing.Union, types.UnionType):
            return self.one_of(args, value, place)
        if origin is typing.Literal:
            return value if value in args else self.other(_either(map(shown, args)), value, place)
        if hint is None or hint is type(None):
            return value if value is None else self.other("null", value, place)
        if hint is int and isinstance(value, float) and value.is_integer():
            # JSON has one type of numbers, and other programs write 1 as 1.0. It has to be the same
            # number when the run is resumed, so this applies to every caller.
            return int(value)
        if hint in _PLAIN:
            return value if _is_plain(hint, value) else self.other(_PLAIN[hint], value, place)
        if (origin or hint) in _LISTS:
            return self.several(origin or hint, args, value, place)
        if (origin or hint) in (dict, abc.Mapping, abc.MutableMapping):
            return self.mapping(args, value, place)
        if isinstance(hint, type) and origin is None and not _is_of(hint, value):
            return self.made(hint, value, place)
        return value

    def other(self, wanted: str, value: Any, place: str) -> Any:
        """Returns the error for a value of the wrong type."""
        if self.checks:
            raise Unfit(f"`{place}` is {wanted}, not {shown(value)}")
        return value

    def one_of(self, hints: tuple[Any, ...], value: Any, place: str) -> Any:
        """Picks the first alternative that the value already is, or else the first that it can be
        converted to.
        """
        strictly, found = _Fit(checks=True), []
        for hint in hints:
            try:
                found.append(strictly.value(hint, value, place))
            except Unfit:
                continue
        for one in found:
            if one is value:
                return value
        return found[0] if found else self.other(_either(map(_called, hints)), value, place)

    def several(self, kind: Any, args: tuple[Any, ...], value: Any, place: str) -> Any:
        if not isinstance(value, (list, tuple, set, frozenset)):
            # A parameter that accepts any iterable accepts other types too.
            return value if kind not in (list, tuple) else self.other("a list", value, place)
        if kind is tuple and args and args[-1] is not Ellipsis:
            hints: list[Any] = [arg for arg in args if arg != ()]
            if len(hints) != len(value):
                return self.other(f"a list of {len(hints)}", value, place)
        else:
            hints = [args[0] if args else Any] * len(value)
        parts = [
            self.value(hint, part, f"{place}[{index}]")
            for index, (hint, part) in enumerate(zip(hints, value, strict=True))
        ]
        is_as_wanted = kind not in (list, tuple, set, frozenset) or isinstance(value, kind)
        if is_as_wanted and all(a is b for a, b in zip(parts, value, strict=True)):
            return value
        return _LISTS[kind](parts)

    def mapping(self, args: tuple[Any, ...], value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            return self.other("an object", value, place)
        if not args:
            return value
        parts = {key: self.value(args[1], part, f"{place}.{key}") for key, part in value.items()}
        return value if all(parts[key] is value[key] for key in value) else parts

    def made(self, kind: type, value: Any, place: str) -> Any:
        """Builds an object of a class from its plain form. A class without a known plain form is
        not checked.
        """
        if issubclass(kind, enum.Enum):
            return self.member(kind, value, place)
        if dataclasses.is_dataclass(kind):
            return self.record(kind, value, place)
        of_text = _OF_TEXT.get(kind)
        if of_text is not None:
            if kind is decimal.Decimal and isinstance(value, (int, float)):
                value = str(value)
            if not isinstance(value, str):
                return self.other(f"a {kind.__name__}", value, place)
            try:
                return of_text(value)
            except (ValueError, ArithmeticError):
                raise Unfit(f"`{place}` is a {kind.__name__}, not {shown(value)}") from None
        # A pydantic model, which validates itself.
        validate = getattr(kind, "model_validate", None)
        if validate is not None and (self.checks or isinstance(value, dict)):
            try:
                return validate(value)
            except ValueError as error:
                raise Unfit(f"`{place}` is not a valid {kind.__name__}: {error}") from None
        return value

    def member(self, kind: type[enum.Enum], value: Any, place: str) -> Any:
        try:
            return kind(value)
        except (ValueError, TypeError):
            named = kind.__members__.get(value) if isinstance(value, str) else None
            if named is None:
                wanted = _either(shown(member.value) for member in kind)
                raise Unfit(f"`{place}` is {wanted}, not {shown(value)}") from None
            return named

    def record(self, kind: Any, value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise Unfit(
                f"`{place}` is an object with the fields of {kind.__name__}, not {shown(value)}"
            )
        fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
        for name in value:
            if name not in fields:
                raise Unfit(f"`{place}` has a `{name}`, which {kind.__name__} has not")
        for name, field in fields.items():
            is_optional = (
                field.default is not dataclasses.MISSING
                or field.default_factory is not dataclasses.MISSING
            )
            if name not in value and not is_optional:
                raise Unfit(f"`{place}` has no `{name}`")
        hints = hints_of(kind)
        return kind(
            **{
                name: self.value(hints.get(name, Any), part, f"{place}.{name}")
                for name, part in value.items()
            }
        )


def _is_of(kind: type, value: Any) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:
        # `Any`, and protocols that cannot be checked at run time.
        return True


def _is_plain(hint: Any, value: Any) -> bool:
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _either(names: typing.Iterable[str]) -> str:
    return " or ".join(names)


def _called(hint: Any) -> str:
    """Returns the name of a type hint."""
    if hint is None or hint is type(None):
        return "null"
    return _PLAIN.get(hint) or f"a {getattr(hint, '__name__', str(hint))}"


_MAX_CHARS = 60


def shown(value: Any) -> str:
    """Describes a value for an error message: the value itself, or a summary of a long one, because
    redaction would not recognize half of a secret.
    """
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return (
        text if len(text) <= _MAX_CHARS else f"a {type(value).__name__} of {len(text)} characters"
    )
