"""What the codec refuses, and what it says then."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import enum
import json
import math
import random
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import codec_values as cv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiffany._core import decode, decode_exception, encode
from tiffany.errors import NotSerializableError, TiffanyError, UnreadableError


def refused(value: object) -> NotSerializableError:
    with pytest.raises(NotSerializableError) as caught:
        encode(value)
    error = caught.value
    assert error.code == "TFY0034"
    assert f"`{error.path}`" in str(error)
    assert "[TFY0034]; " in str(error)
    assert isinstance(error, TypeError)
    return error


def unreadable(text: str) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        decode(text)
    error = caught.value
    assert error.code == "TFY0035"
    assert f"`{error.path}`" in str(error)
    assert "[TFY0035]; " in str(error)
    assert isinstance(error, ValueError)
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


# Texts that nobody should have written, and a piece of what is said about them.
EVIL = [
    ("", "ends too early"),
    ("   ", "ends too early"),
    ("[1", "ends too early"),
    ('{"a"', "ends too early"),
    ('{"a":', "ends too early"),
    ('"abc', "ends too early"),
    ('"abc\\', "ends too early"),
    ("[1,]", "no JSON value"),
    ("[1 2]", "a comma or `]` is missing"),
    ('{"a":1 "b":2}', "a comma or `}` is missing"),
    ('{"a":1,}', "a name in quotes is missing"),
    ("{a:1}", "a name in quotes is missing"),
    ('{"a" 1}', "a colon is missing"),
    ("nul", "no JSON value"),
    ("nulls", "something stands after the value"),
    ("1 2", "something stands after the value"),
    ("NaN", "no JSON value"),
    ("Infinity", "no JSON value"),
    ("+1", "no JSON value"),
    ("01", "begins with a zero"),
    ("-", "ends too early"),
    ("1.", "ends too early"),
    ("1.e5", "no JSON value"),
    ("1e999", "too large"),
    ("-1e999", "too large"),
    ("1" * 10_000, "4300"),
    ('"\n"', "not escaped"),
    ('"\\x41"', "an escape that JSON does not have"),
    ('"\\ud800"', "stands alone"),
    ('"\\udc00\\ud800"', "stands alone"),
    ('"\\u12"', "four hex digits"),
    ('{"a":1,"a":2}', "`a` stands there twice"),
    ('{"b":1,"$tuple":[]}', "stands behind others"),
    ('{"$nothing":1}', "`$nothing` is no tag"),
    ('{"$":1}', "`$` is no tag"),
    ('{"$tuple":1}', "before a list, and not before this `int`"),
    ('{"$tuple":[],"x":1}', "has no `x`"),
    ('{"$set":[[]]}', "unhashable"),
    ('{"$set":[1,1]}', "twice"),
    ('{"$frozenset":[1,1.0]}', "twice"),
    ('{"$dict":[[1]]}', "a list of pairs"),
    ('{"$dict":[1]}', "a list of pairs"),
    ('{"$dict":[[1,2],[1,3]]}', "twice"),
    ('{"$dict":[[[],2]]}', "unhashable"),
    ('{"$bytes":"%%%"}', "base64"),
    ('{"$bytes":"aGVsbG8"}', "base64"),
    ('{"$bytes":5}', "before a text"),
    ('{"$float":"1.5"}', "`nan`, `inf` or `-inf`"),
    ('{"$int":"12"}', "a number in hex"),
    ('{"$int":"0x"}', "a number in hex"),
    ('{"$int":"0x_1"}', "a number in hex"),
    ('{"$str":"\\\\x"}', "a bad escape"),
    ('{"$str":"\\\\u0041"}', "a bad escape"),
    ('{"$complex":[1,2]}', "two numbers with a point"),
    ('{"$range":[0,1]}', "a list of 3"),
    ('{"$range":[0,1,0]}', "must not be zero"),
    ('{"$range":[0,true,1]}', "whole numbers"),
    ('{"$fraction":[1,0]}', "ZeroDivisionError"),
    ('{"$decimal":"x"}', "`$decimal`"),
    ('{"$uuid":"x"}', "`$uuid`"),
    ('{"$datetime":"yesterday"}', "Invalid isoformat"),
    ('{"$datetime":"2026-01-01","tzinfo":5}', "no time zone"),
    ('{"$datetime":"2026-01-01","fold":7}', "fold"),
    ('{"$datetime":"2026-01-01","fold":"x"}', "`fold` is 0 or 1"),
    ('{"$timedelta":[1,2]}', "a list of 3"),
    ('{"$timedelta":[9999999999999,0,0]}', "OverflowError"),
    ('{"$timezone":[5]}', "TypeError"),
    ('{"$zoneinfo":"../../etc/passwd"}', "ValueError"),
    ('{"$zoneinfo":"No/Where"}', "tzdata"),
    ('{"$enum":"codec_values:Color"}', "has the `name`"),
    ('{"$enum":"codec_values:Color","name":"GREEN"}', "has no member `GREEN`"),
    ('{"$enum":"codec_values:Color","value":1}', "has the `name`"),
    ('{"$enum":"codec_values:Rights","value":4096}', "ValueError"),
    ('{"$enum":"codec_values:Plain","name":"a"}', "is no enum any more"),
    ('{"$enum":"nocolon","name":"a"}', "is no name of a class"),
    ('{"$enum":"no.such.module:X","name":"a"}', "no module `no.such.module` is imported"),
    ('{"$enum":"codec_values:Gone","name":"a"}', "the module `codec_values` has none"),
    ('{"$enum":"codec_values:Color.RED","name":"a"}', "is no class"),
    ('{"$dataclass":"subprocess:Popen","args":["false"]}', "is no dataclass any more"),
    ('{"$dataclass":"os:system"}', "is no class but"),
    ('{"$dataclass":"codec_values:Plain"}', "no field `a`, which `codec_values:Plain` needs"),
    ('{"$dataclass":"codec_values:Plain","a":1,"z":2}', "`codec_values:Plain` has no field `z`"),
    ('{"$dataclass":"codec_values:Plain","a":1,"$attributes":2}', "is no object"),
    ('{"$dataclass":"codec_values:Frozen","a":1,"$attributes":{"q":1}}', "AttributeError"),
    ('{"$dataclass":{}}', "before a text"),
    ('{"$dataclass":"codec_values:Text"}', "object.__new__"),
    ('{"$namedtuple":"codec_values:Point","y":1}', "no field `x`"),
    ('{"$namedtuple":"codec_values:Point","x":1,"z":1}', "has no field `z`"),
    ('{"$namedtuple":"builtins:tuple"}', "is no named tuple any more"),
    ('{"$model":"codec_values:Plain","a":1}', "is no pydantic model any more"),
    ('{"$exception":"builtins:print"}', "is no class but"),
    ('{"$exception":"builtins:int","args":[1]}', "is no exception any more"),
    ('{"$exception":"builtins:ValueError","args":1}', "`args` is no list"),
    ('{"$exception":"builtins:ValueError","cause":1}', "TypeError"),
    ('{"$custom":"nobody","value":1}', "nobody here reads the type `nobody`"),
    ('{"$custom":"nobody"}', "has no `value`"),
]


@pytest.mark.parametrize(("text", "why"), EVIL, ids=[text[:50] for text, _ in EVIL])
def test_a_text_that_cannot_be_read_is_an_error(text: str, why: str) -> None:
    assert why in str(unreadable(text))


def test_the_place_in_the_text_is_named() -> None:
    cases = {
        '{"orders":[1,2,{"customer":{"$nothing":1}}]}': ".orders[2].customer",
        '[[1],[2,3,{"$set":[1,1]}]]': "[1][2]",
        '{"$dataclass":"codec_values:Plain","a":1,"b":[{"$range":1}]}': ".b[0]",
        '{"$tuple":[0,{"$tuple":["a",nul]}]}': "[1][1]",
        '{"a":[[],[],{"b":1,"b":2}]}': ".a[2].b",
        '{"$datetime":"2026-01-01","tzinfo":{"$zoneinfo":5}}': ".tzinfo",
    }
    for text, path in cases.items():
        assert unreadable(text).path == path, text


def test_what_is_no_text_is_an_error() -> None:
    with pytest.raises(UnreadableError, match="lone surrogates"):
        decode('"\ud800"')
    for wrong in (b"1", None, 1, cv.Plain(1)):
        with pytest.raises(TypeError):
            decode(wrong)  # type: ignore[arg-type]


def test_nothing_is_imported_by_a_name_out_of_a_text() -> None:
    name = "wave"
    assert name not in sys.modules
    unreadable('{"$dataclass":"wave:Wave_read"}')
    assert name not in sys.modules


def test_no_code_of_a_module_runs_when_a_class_is_looked_for() -> None:
    module = types.ModuleType("codec_lazy")
    asked: list[str] = []
    module.__getattr__ = asked.append  # type: ignore[method-assign]
    sys.modules["codec_lazy"] = module
    try:
        unreadable('{"$dataclass":"codec_lazy:Thing"}')
    finally:
        del sys.modules["codec_lazy"]
    assert asked == []


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"$tuple":[', '{"$dict":[[1,', '{"$str":'])
def test_a_text_of_any_depth_is_an_error_in_time(opening: str) -> None:
    begun = time.monotonic()
    assert "1000 levels" in str(unreadable(opening * 1_000_000))
    assert "1000 levels" in str(unreadable(opening * 1_001))
    assert time.monotonic() - begun < 5


def test_long_numbers_are_read_in_time() -> None:
    begun = time.monotonic()
    unreadable("9" * 5_000_000)
    unreadable("[" + "9" * 5_000_000)
    assert decode("0." + "9" * 1_000_000) == 1.0
    assert time.monotonic() - begun < 5


VALID: list[Callable[[], object]] = [
    lambda: {"a": [1, 2.5, "é", None, True], "b": {"c": {}}},
    lambda: [(1, {2, 3}), {1: b"x"}, dt.datetime(2026, 1, 1, tzinfo=dt.UTC, fold=1)],
    lambda: [cv.Plain(1, [cv.Frozen("x")]), cv.Point(1), cv.Rights(3), cv.Color.RED],
    lambda: [1 << 2000, "\udc80", float("inf"), complex(1, 2), range(3)],
    lambda: [ValueError("x", 1), cv.Busy(3), dt.timezone(dt.timedelta(1 / 24), "X")],
]


def read(text: str) -> None:
    """Reads a text in both ways. It may have become another one that is valid, and else only these errors are raised."""
    for way in (decode, decode_exception):
        with contextlib.suppress(UnreadableError):
            way(text)


@pytest.mark.parametrize("make", VALID)
def test_every_beginning_of_a_text_is_an_error(make: Callable[[], object]) -> None:
    text = encode(make())
    for end in range(len(text)):
        unreadable(text[:end])


def test_random_edits_of_a_text_are_never_more_than_an_error() -> None:
    chance = random.Random(7)
    alphabet = '{}[]",:$\\u0123dc-.eEtfn \n\0é\u2028😀'
    pieces = [
        '"$tuple":',
        '"$dict":',
        '"$set":',
        '"$enum":',
        "null",
        "1e400",
        "[[",
        '"fold":2',
        "9" * 30,
    ]
    texts = [encode(make()) for make in VALID]
    for _ in range(20_000):
        text = list(chance.choice(texts))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            match chance.randrange(5):
                case 0:
                    del text[at]
                case 1:
                    text[at] = chance.choice(alphabet)
                case 2:
                    text.insert(at, chance.choice(pieces))
                case 3:
                    text[at : at + chance.randrange(20)] = []
                case _:
                    other = chance.randrange(len(text))
                    text[at], text[other] = text[other], text[at]
            text = text or ["1"]
        read("".join(text))


tags = st.sampled_from(
    [
        "$tuple",
        "$dict",
        "$set",
        "$frozenset",
        "$bytes",
        "$bytearray",
        "$datetime",
        "$date",
        "$time",
        "$timedelta",
        "$timezone",
        "$zoneinfo",
        "$decimal",
        "$fraction",
        "$uuid",
        "$path",
        "$pure_posix_path",
        "$pure_windows_path",
        "$complex",
        "$range",
        "$float",
        "$int",
        "$str",
        "$enum",
        "$dataclass",
        "$namedtuple",
        "$model",
        "$exception",
        "$text",
        "$custom",
        "$attributes",
        "$set",
        "$extra",
        "$private",
        "tzinfo",
        "fold",
        "name",
        "value",
        "args",
        "message",
        "notes",
        "attributes",
        "cause",
        "a",
        "b",
        "x",
        "y",
        "of",
    ]
)
heads = st.sampled_from(
    [
        "codec_values:Plain",
        "codec_values:Color",
        "codec_values:Point",
        "codec_values:Rights",
        "codec_values:Frozen",
        "builtins:ValueError",
        "builtins:OSError",
        "builtins:ExceptionGroup",
        "builtins:type",
        "builtins:object",
        "datetime:date",
        "2026-01-01",
        "Europe/Berlin",
        "aGk=",
        "nan",
        "0x1f",
        "RED",
        "a",
    ]
)
objects = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | heads,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tags, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=2000, deadline=None)
@given(objects)
def test_tags_in_any_order_are_never_more_than_an_error(value: object) -> None:
    read(json.dumps(value))


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


def test_the_errors_are_tiffanys() -> None:
    assert isinstance(refused(lock), TiffanyError)
    assert isinstance(unreadable("["), TiffanyError)
