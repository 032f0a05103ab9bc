"""Values as JSON text and back, as durable runs record the results of their steps.

A decoded value is equal to the original and of the same type. A run gets the decoded value when it
runs for the first time too, so that it never sees anything else when it is resumed.

Values that JSON has are written as they are: ``None``, ``bool``, ``int`` of any size, ``float``,
``str``, ``list``, and ``dict`` with strings as keys. These are written as objects with a tag:
``tuple``, ``set``, ``frozenset``, any other ``dict``, ``bytes``, ``bytearray``, ``complex``,
``range``, numbers that are not finite; ``datetime``, ``date``, ``time``, ``timedelta`` and time
zones; ``Decimal``, ``Fraction``, ``UUID``, paths; members of enums; dataclasses, named tuples,
pydantic models (version 2); exceptions.

>>> import datetime
>>> encode({"due": datetime.date(2026, 11, 5), "tags": {"b", "a"}, "size": (3, 4)})
'{"due":{"$date":"2026-11-05"},"tags":{"$set":["a","b"]},"size":{"$tuple":[3,4]}}'
>>> decode('{"$tuple":[3,4]}')
(3, 4)

Any other value raises an error that names its place, before anything is written:

>>> encode({"orders": [{"lock": object()}]})
Traceback (most recent call last):
    ...
tiffany.errors.NotSerializableError: a value cannot be recorded at `.orders[0].lock`: a `object` has no form in JSON [TFY0034]; use plain values, dataclasses, enums or pydantic models, or teach the codec this type with `tiffany.codec.register`

A subclass of ``list``, ``str`` or another of these types is an error too, because it would be
decoded as its base class. If two places of a value hold the same list, each gets its own list when
decoded. Instances are rebuilt from their fields: neither ``__init__`` nor ``__post_init__`` nor a
validator runs. Classes are looked up by module and name among the imported modules; a log never
causes an import. A dataclass or model may get new fields if they have defaults.
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
    """Adds support for your own type to the codec.

    ``encode`` converts an instance to a value that the codec knows, and ``decode`` converts it
    back. ``name`` is the name of the type in the log; do not change it while there are runs that
    use it. Register a type before a run starts or is resumed.

    The functions are used for instances of exactly this type, and take precedence over the built-in
    ways. A subclass needs its own registration. Types that JSON has cannot be registered. Any
    thread may call this function; it applies to all runs of the process.

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
    """The object that ``plug`` takes. It is called for every value that JSON does not have."""

    def encode(self, value: Any, /) -> object:
        """Returns a value that the codec knows, or ``NotImplemented``."""

    def decode(self, tag: str, payload: Any, /) -> object:
        """Returns the original value, or ``NotImplemented``. ``tag`` is the name of its class:
        ``module:class``.
        """


def plug(codec: Codec) -> None:
    """Adds an object that is called first for all types that are not registered.

    Several objects may be added; they are called in the order in which they were added.

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
    """Removes an object added with ``plug``. Returns whether it had been added."""
    return codec_unplug(codec)
