"""Classes and comparisons that the tests of the codec share."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections import namedtuple
from typing import Any, Generic, NamedTuple, TypeVar


class Color(enum.Enum):
    RED = object()
    BLUE = (1,)
    CRIMSON = RED


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Name(enum.StrEnum):
    ADA = "ada"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag, boundary=enum.KEEP):
    ONE = 1


@dataclasses.dataclass
class Plain:
    a: Any
    b: Any = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    made: int = dataclasses.field(init=False, default=7)


@dataclasses.dataclass(kw_only=True)
class Child(Plain):
    c: list[Any] = dataclasses.field(default_factory=list)
    late: int = dataclasses.field(init=False)

    class Inner(enum.Enum):
        X = 1


@dataclasses.dataclass
class Busy:
    """Its `__post_init__` must not run again."""

    n: int
    init: dataclasses.InitVar[int] = 3
    ran = 0

    def __post_init__(self, init: int) -> None:
        type(self).ran += 1
        self.double = self.n * 2

    @functools.cached_property
    def lock(self) -> object:
        return object()


T = TypeVar("T")


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass(eq=False, init=False)
class Text(str):
    a: int = 0


class Point(NamedTuple):
    x: Any
    y: Any = 2


Pair = namedtuple("Pair", ["left", "right"])


class Labelled(Pair):
    """A named tuple whose instances have a dictionary."""

    label: str


class MyStr(str):
    pass


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down; not-a-number is the same as itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        # The order of the entries too.
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        if len(one) != len(other):
            return False
        return all(any(same(a, b) for b in other) for a in one)
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        missing = object()
        return all(
            same(getattr(one, name, missing), getattr(other, name, missing))
            if hasattr(one, name)
            else not hasattr(other, name)
            for name in names
        )
    return bool(one == other)
