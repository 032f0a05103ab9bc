"""Values as JSON text and back: what a durable run writes down of what its steps return.

What comes back is equal to what went in, and of the same type. A run is given the value that comes back when it runs for
the first time too, so that it never sees anything else when it is brought back.

What JSON has is written as it is: ``None``, ``bool``, ``int`` of any size, ``float``, ``str``, ``list``, and ``dict`` with
texts as keys. These are written as objects with a tag: ``tuple``, ``set``, ``frozenset``, any other ``dict``, ``bytes``,
``bytearray``, ``complex``, ``range``, numbers that are not finite; ``datetime``, ``date``, ``time``, ``timedelta`` and time
zones; ``Decimal``, ``Fraction``, ``UUID``, paths; members of enums; dataclasses, named tuples, pydantic models (version 2);
exceptions.

>>> import datetime
>>> encode({"due": datetime.date(2026, 11, 5), "tags": {"b", "a"}, "size": (3, 4)})
'{"due":{"$date":"2026-11-05"},"tags":{"$set":["a","b"]},"size":{"$tuple":[3,4]}}'
>>> decode('{"$tuple":[3,4]}')
(3, 4)

Everything else is an error that names the place, before anything is written:

>>> encode({"orders": [{"lock": object()}]})
Traceback (most recent call last):
    ...
tiffany.errors.NotSerializableError: a value cannot be recorded at `.orders[0].lock`: a `object` has no form in JSON [TFY0034]; use plain values, dataclasses, enums or pydantic models, or teach the codec this type with `tiffany.codec.register`

A subclass of ``list``, ``str`` or another of these types is an error too, because it would come back as its base. Two places
of a value that hold the same list come back with a list each. Instances are made again from their fields: neither
``__init__`` nor ``__post_init__`` nor a validator runs. Classes are found by module and name among what the program has
imported; nothing is imported because a log says so. A dataclass or model may get new fields if they have defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tiffany._core import (
    UnknownException,
    codec_plug,
    codec_register,
    codec_unplug,
    decode,
    encode,
)
from tiffany.errors import NotSerializableError, UnreadableError

__all__ = [
    "Codec",
    "NotSerializableError",
    "UnknownException",
    "UnreadableError",
    "decode",
    "encode",
    "plug",
    "register",
    "unplug",
]

T = TypeVar("T")


def register(
    type: type[T], name: str, encode: Callable[[T], object], decode: Callable[[Any], T]
) -> None:
    """Teach the codec a type of your own.

    ``encode`` turns an instance into something that the codec knows, ``decode`` turns that back. ``name`` is what the type
    is called in the log; do not change it while there are runs that use it. Register before a run starts or goes on.

    It is for instances of exactly this type, and goes before the ways that are built in. A subclass needs its own. The
    types that JSON has cannot be registered. Any thread may call this; all runs of the process share what it says.

    >>> class Money:
    ...     def __init__(self, cents: int) -> None:
    ...         self.cents = cents
    >>> register(Money, "money", lambda money: money.cents, Money)
    >>> encode([Money(250)])
    '[{"$custom":"money","value":250}]'
    >>> decode('[{"$custom":"money","value":250}]')[0].cents
    250
    """
    codec_register(type, name, encode, decode)


class Codec(Protocol):
    """What ``plug`` takes: an object that is asked for every value that JSON does not have."""

    def encode(self, value: Any, /) -> object:
        """Something that the codec knows, or ``NotImplemented``."""

    def decode(self, tag: str, payload: Any, /) -> object:
        """The value again, or ``NotImplemented``. ``tag`` is the name of its class: ``module:class``."""


def plug(codec: Codec) -> None:
    """Ask an object of your own first, for all types that are not registered.

    Several may be plugged; they are asked in this order.

    >>> import re
    >>> class Patterns:
    ...     def encode(self, value: object) -> object:
    ...         return value.pattern if isinstance(value, re.Pattern) else NotImplemented
    ...     def decode(self, tag: str, payload: str) -> object:
    ...         return re.compile(payload) if tag == "re:Pattern" else NotImplemented
    >>> patterns = Patterns()
    >>> plug(patterns)
    >>> encode(re.compile("a+"))
    '{"$custom":"re:Pattern","value":"a+"}'
    >>> decode('{"$custom":"re:Pattern","value":"a+"}')
    re.compile('a+')
    >>> unplug(patterns)
    True
    """
    codec_plug(codec)


def unplug(codec: Codec) -> bool:
    """Ask it no more. Whether it was plugged."""
    return codec_unplug(codec)
