"""What the codec refuses, and what it says then."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import math
from typing import Any

import codec_values as cv
import pytest
from tiffany._core import decode, encode
from tiffany.errors import NotSerializableError, TiffanyError


def refused(value: object) -> NotSerializableError:
    with pytest.raises(NotSerializableError) as caught:
        encode(value)
    error = caught.value
    assert error.code == "TFY0034"
    assert f"`{error.path}`" in str(error)
    assert "[TFY0034]; " in str(error)
    assert isinstance(error, TypeError)
    return error


class Local(dt.datetime):
    pass


class Tuple(tuple[int, ...]):
    pass


lock = object()


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        (lock, ".", "a `object` has no form in JSON"),
        ({"orders": [0, 1, 2, {"customer": lock}]}, ".orders[3].customer", "`object`"),
        ((1, [lock]), "[1][0]", "`object`"),
        ({"a b": {"": lock}}, '["a b"][""]', "`object`"),
        ({1: lock}, "[1]", "`object`"),
        ({(1, "x"): {2: lock}}, "[(1, 'x')][2]", "`object`"),
        ({1: 0, lock: 1}, ".keys()[1]", "`object`"),
        ({"a": {lock}}, ".a{…}", "`object`"),
        (cv.Plain(1, [lock]), ".b[0]", "`object`"),
        (cv.Point({"z": lock}), ".x.z", "`object`"),
        (ValueError(1, lock), ".args[1]", "`object`"),
        (cv.MyStr("x"), ".", "`codec_values:MyStr` is a subclass of `str`"),
        ([True, collections.OrderedDict()], "[1]", "subclass of `dict`"),
        (collections.Counter(), ".", "subclass of `dict`"),
        (cv.Text("x"), ".", "subclass of `str`"),
        (Local(2026, 1, 1), ".", "subclass of `datetime`"),
        (Tuple(), ".", "subclass of `tuple`"),
        (collections.deque(), ".", "`collections:deque`"),
        (memoryview(b""), ".", "`memoryview`"),
        (int, ".", "`type`"),
        (len, ".", "`builtin_function_or_method`"),
        (math, ".", "`module`"),
        (NotImplemented, ".", "`NotImplementedType`"),
        (..., ".", "`ellipsis`"),
        ((n for n in [1]), ".", "`generator`"),
    ],
)
def test_what_has_no_form_is_named_with_its_place(value: object, path: str, why: str) -> None:
    error = refused(value)
    assert error.path == path
    assert why in str(error)
    assert "tiffany.codec.register" in str(error)


def test_a_class_that_could_not_be_found_again_is_refused() -> None:
    @dataclasses.dataclass
    class Inside:
        n: int

    class Season(enum.Enum):
        MAY = 1

    make: Any = collections.namedtuple
    for value in (Inside(1), Season.MAY, make("Elsewhere", "a")(1)):
        assert "cannot be found again" in str(refused([value]))


def test_a_cycle_is_found_and_named() -> None:
    cycle: dict[str, Any] = {"a": [1, {}]}
    cycle["a"][1]["me"] = cycle
    error = refused({"in": cycle})
    assert error.path == ".in.a[1].me"
    assert "contains itself" in str(error)
    plain = cv.Plain(1)
    plain.b = (plain,)
    assert refused(plain).path == ".b[0]"


def test_the_path_of_something_deep_is_short() -> None:
    deep: object = lock
    for _ in range(900):
        deep = [deep]
    path = refused({"a": deep}).path
    assert path.startswith(".a[0][0]")
    assert "levels" in path
    assert len(path) < 100
    assert len(refused({"x" * 10_000: lock}).path) < 100
    # The error of a hook or a repr is cut as well.
    assert len(str(refused({1: 2, "y" * 10_000: 3, 4: lock}))) < 600


class Vicious:
    """A key that fails when it is shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_a_key_that_cannot_be_shown_does_no_harm() -> None:
    assert refused({Vicious(): 1}).path == ".keys()[0]"


def test_a_value_may_change_while_it_is_written() -> None:
    """Code of the user's runs in between; that must not crash anything."""
    box: list[Any] = []
    table: dict[str, Any] = {}

    @dataclasses.dataclass
    class Shrinks:
        n: int = 0

        def __getattribute__(self, name: str) -> Any:
            box.clear()
            table.clear()
            return object.__getattribute__(self, name)

    Shrinks.__qualname__ = "Shrinks"
    globals()["Shrinks"] = Shrinks
    box += [Shrinks(), 1, 2]
    assert decode(encode(box)) == [Shrinks()]
    table |= {"a": Shrinks(), "b": [1]}
    assert list(decode(encode(table))) == ["a", "b"]


def test_ctrl_c_in_the_code_of_a_class_passes() -> None:
    @dataclasses.dataclass
    class Slow:
        n: int = 0

        def __getattribute__(self, name: str) -> Any:
            if name == "n":
                raise KeyboardInterrupt
            return object.__getattribute__(self, name)

    Slow.__qualname__ = "Slow"
    globals()["Slow"] = Slow
    with pytest.raises(KeyboardInterrupt):
        encode([Slow()])


def test_the_error_is_tiffanys() -> None:
    assert isinstance(refused(lock), TiffanyError)
