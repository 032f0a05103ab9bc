"""Texts that nobody should have written: an error each, and never more than that."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
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
from tiffany.errors import TiffanyError, UnreadableError


def unreadable(text: str) -> UnreadableError:
    with pytest.raises(UnreadableError) as caught:
        decode(text)
    error = caught.value
    assert error.code == "TFY0035"
    assert f"`{error.path}`" in str(error)
    assert "[TFY0035]; " in str(error)
    assert isinstance(error, ValueError)
    assert isinstance(error, TiffanyError)
    return error


# Texts that nobody should have written, and a piece of what is said about them.
EVIL = [
    ("", "ends too early"),
    ("   ", "ends too early"),
    ("[1", "ends too early"),
    ('{"a"', "ends too early"),
    ('{"a":', "ends too early"),
    ('"abc', "ends too early"),
    ('"abc\\', "ends too early"),
    ("[1,]", "not a JSON value"),
    ("[1 2]", "a comma or `]` is missing"),
    ('{"a":1 "b":2}', "a comma or `}` is missing"),
    ('{"a":1,}', "a name in quotes is missing"),
    ("{a:1}", "a name in quotes is missing"),
    ('{"a" 1}', "a colon is missing"),
    ("nul", "not a JSON value"),
    ("nulls", "something stands after the value"),
    ("1 2", "something stands after the value"),
    ("NaN", "not a JSON value"),
    ("Infinity", "not a JSON value"),
    ("+1", "not a JSON value"),
    ("01", "begins with a zero"),
    ("-", "ends too early"),
    ("1.", "ends too early"),
    ("1.e5", "not a JSON value"),
    ("1e999", "too large"),
    ("-1e999", "too large"),
    ("1" * 10_000, "4300"),
    ('"\n"', "not escaped"),
    ('"\\x41"', "an escape that JSON does not have"),
    ('"\\ud800"', "is alone"),
    ('"\\udc00\\ud800"', "is alone"),
    ('"\\u12"', "four hex digits"),
    ('{"a":1,"a":2}', "`a` occurs twice"),
    ('{"b":1,"$tuple":[]}', "comes after others"),
    ('{"$nothing":1}', "`$nothing` is not a tag"),
    ('{"$":1}', "`$` is not a tag"),
    ('{"$tuple":1}', "before a list, not before this `int`"),
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
    ('{"$datetime":"2026-01-01","tzinfo":5}', "not a time zone"),
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
    ('{"$enum":"codec_values:Plain","name":"a"}', "is not an enum any more"),
    ('{"$enum":"nocolon","name":"a"}', "is not the name of a class"),
    ('{"$enum":"no.such.module:X","name":"a"}', "no module `no.such.module` is imported"),
    ('{"$enum":"codec_values:Gone","name":"a"}', "the module `codec_values` has none"),
    ('{"$enum":"codec_values:Color.RED","name":"a"}', "is not a class"),
    ('{"$dataclass":"subprocess:Popen","args":["false"]}', "is not a dataclass any more"),
    ('{"$dataclass":"os:system"}', "is not a class but"),
    ('{"$dataclass":"codec_values:Plain"}', "no field `a`, which `codec_values:Plain` needs"),
    ('{"$dataclass":"codec_values:Plain","a":1,"z":2}', "`codec_values:Plain` has no field `z`"),
    ('{"$dataclass":"codec_values:Plain","a":1,"$attributes":2}', "is not an object"),
    ('{"$dataclass":"codec_values:Frozen","a":1,"$attributes":{"q":1}}', "AttributeError"),
    ('{"$dataclass":{}}', "before a text"),
    ('{"$dataclass":"codec_values:Text"}', "object.__new__"),
    ('{"$namedtuple":"codec_values:Point","y":1}', "no field `x`"),
    ('{"$namedtuple":"codec_values:Point","x":1,"z":1}', "has no field `z`"),
    ('{"$namedtuple":"builtins:tuple"}', "is not a named tuple any more"),
    ('{"$model":"codec_values:Plain","a":1}', "is not a pydantic model any more"),
    ('{"$exception":"builtins:print"}', "is not a class but"),
    ('{"$exception":"builtins:int","args":[1]}', "is not an exception any more"),
    ('{"$exception":"builtins:ValueError","args":1}', "`args` is not a list"),
    ('{"$exception":"builtins:ValueError","cause":1}', "TypeError"),
    ('{"$custom":"nobody","value":1}', "no codec is registered for the type `nobody`"),
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


TAGS = (
    "$tuple $dict $set $frozenset $bytes $bytearray $datetime $date $time $timedelta $timezone "
    "$zoneinfo $decimal $fraction $uuid $path $pure_posix_path $pure_windows_path $complex $range "
    "$float $int $str $enum $dataclass $namedtuple $model $exception $text $custom"
)
NAMES = (
    "$attributes $set $extra $private tzinfo fold name value args message notes attributes cause "
    "a b x y of"
)
HEADS = (
    "codec_values:Plain codec_values:Color codec_values:Point codec_values:Rights codec_values:Frozen "
    "builtins:ValueError builtins:OSError builtins:ExceptionGroup builtins:type builtins:object "
    "datetime:date 2026-01-01 Europe/Berlin aGk= nan 0x1f RED a"
)
tags, names, heads = (st.sampled_from(words.split()) for words in (TAGS, NAMES, HEADS))
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def tagged(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with a tag, what stands under it, and a few names behind it."""
    nothing: dict[str, Any] = {}
    rest = st.just(nothing) | st.dictionaries(names, inner, max_size=3)
    few = st.lists(numbers | heads | st.lists(numbers | heads, max_size=2), max_size=3)
    return st.builds(lambda tag, head, rest: {tag: head, **rest}, tags, few | heads | inner, rest)


objects = st.recursive(
    st.none() | st.booleans() | numbers | heads,
    lambda inner: st.lists(inner, max_size=3) | tagged(inner),
    max_leaves=12,
)


@settings(max_examples=700, deadline=None)
@given(objects)
def test_tags_before_anything_are_never_more_than_an_error(value: object) -> None:
    read(json.dumps(value))
