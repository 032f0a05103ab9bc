"""What goes into the codec comes out again: equal, and of the same type."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import pathlib
import subprocess
import sys
import threading
import uuid
import zoneinfo
from decimal import Decimal
from fractions import Fraction

import codec_values as cv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiffany._core import decode, encode

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

# What is encoded, and its text: the texts are a format that logs depend on.
FORMS = [
    (None, "null"),
    (True, "true"),
    (False, "false"),
    (0, "0"),
    (-17, "-17"),
    (2**63 - 1, "9223372036854775807"),
    (-(2**63), "-9223372036854775808"),
    (2**64, "18446744073709551616"),
    (10**300, "1" + "0" * 300),
    (1 << 1000, '{"$int":"0x1' + "0" * 250 + '"}'),
    (-(1 << 20_000), '{"$int":"-0x1' + "0" * 5000 + '"}'),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (0.1, "0.1"),
    (1e16, "1e16"),
    (5e-324, "5e-324"),
    (float("nan"), '{"$float":"nan"}'),
    (float("inf"), '{"$float":"inf"}'),
    (float("-inf"), '{"$float":"-inf"}'),
    ("", '""'),
    ('a"b\\c\n\r\t\b\x00\x7fé😀\u2028', '"a\\"b\\\\c\\n\\r\\t\\u0008\\u0000\x7fé😀\u2028"'),
    ("x\ud800\\y", '{"$str":"x\\\\ud800\\\\\\\\y"}'),
    ("\ud83d\ude00", '{"$str":"\\\\ud83d\\\\ude00"}'),
    ([], "[]"),
    ([1, [2, []]], "[1,[2,[]]]"),
    ({}, "{}"),
    ({"b": 1, "a": {"": None}}, '{"b":1,"a":{"":null}}'),
    ({"$a": 1, "b": 2}, '{"$dict":[["$a",1],["b",2]]}'),
    ({"b": 2, "$a": 1}, '{"$dict":[["b",2],["$a",1]]}'),
    ({1: "a", None: [], (1,): {}}, '{"$dict":[[1,"a"],[null,[]],[{"$tuple":[1]},{}]]}'),
    ({"\udc80": 1}, '{"$dict":[[{"$str":"\\\\udc80"},1]]}'),
    ((), '{"$tuple":[]}'),
    ((1, (2,)), '{"$tuple":[1,{"$tuple":[2]}]}'),
    (set(), '{"$set":[]}'),
    ({10, 9, "a", (1,)}, '{"$set":["a",10,9,{"$tuple":[1]}]}'),
    (frozenset({2, 1}), '{"$frozenset":[1,2]}'),
    (b"", '{"$bytes":""}'),
    (b"hello\xff", '{"$bytes":"aGVsbG//"}'),
    (bytearray(b"hi"), '{"$bytearray":"aGk="}'),
    (complex(-0.0, 2.5), '{"$complex":[-0.0,2.5]}'),
    (complex("nan+infj"), '{"$complex":[{"$float":"nan"},{"$float":"inf"}]}'),
    (range(1, 9, 2), '{"$range":[1,9,2]}'),
    (dt.date(2026, 11, 5), '{"$date":"2026-11-05"}'),
    (dt.datetime(2026, 11, 5, 1, 2, 3, 4), '{"$datetime":"2026-11-05T01:02:03.000004"}'),
    (
        dt.datetime(2026, 11, 5, tzinfo=dt.UTC, fold=1),
        '{"$datetime":"2026-11-05T00:00:00+00:00","fold":1}',
    ),
    (
        dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
        '{"$datetime":"2026-10-25T02:30:00","tzinfo":{"$zoneinfo":"Europe/Berlin"},"fold":1}',
    ),
    (dt.time(1, 2), '{"$time":"01:02:00"}'),
    (
        dt.time(1, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=-2, seconds=3))),
        '{"$time":"01:02:03.000004-01:59:57"}',
    ),
    (dt.timedelta(-1, 5, 7), '{"$timedelta":[-1,5,7]}'),
    (dt.UTC, '{"$timezone":[{"$timedelta":[0,0,0]}]}'),
    (BERLIN, '{"$zoneinfo":"Europe/Berlin"}'),
    (Decimal("1.10"), '{"$decimal":"1.10"}'),
    (Decimal("-Infinity"), '{"$decimal":"-Infinity"}'),
    (Fraction(1, 3), '{"$fraction":[1,3]}'),
    (uuid.UUID(int=5), '{"$uuid":"00000000-0000-0000-0000-000000000005"}'),
    (pathlib.Path("/a/b"), '{"$path":"/a/b"}'),
    (pathlib.Path("\udc80"), '{"$path":{"$str":"\\\\udc80"}}'),
    (pathlib.PurePosixPath("a"), '{"$pure_posix_path":"a"}'),
    (pathlib.PureWindowsPath("c:\\a"), '{"$pure_windows_path":"c:\\\\a"}'),
    (cv.Color.RED, '{"$enum":"codec_values:Color","name":"RED"}'),
    (cv.Color.CRIMSON, '{"$enum":"codec_values:Color","name":"RED"}'),
    (cv.Level.HIGH, '{"$enum":"codec_values:Level","name":"HIGH"}'),
    (cv.Name.ADA, '{"$enum":"codec_values:Name","name":"ADA"}'),
    (cv.Rights.READ, '{"$enum":"codec_values:Rights","name":"READ"}'),
    (cv.Rights.READ | cv.Rights.WRITE, '{"$enum":"codec_values:Rights","value":3}'),
    (cv.Rights(0), '{"$enum":"codec_values:Rights","value":0}'),
    (cv.Bits(9), '{"$enum":"codec_values:Bits","value":9}'),
    (cv.Child.Inner.X, '{"$enum":"codec_values:Child.Inner","name":"X"}'),
    (cv.Plain([1], None), '{"$dataclass":"codec_values:Plain","a":[1],"b":null}'),
    (cv.Frozen((1,)), '{"$dataclass":"codec_values:Frozen","a":{"$tuple":[1]},"made":7}'),
    (cv.Child(a=1, c=[2]), '{"$dataclass":"codec_values:Child","a":1,"b":2,"c":[2]}'),
    (cv.Box[int](3), '{"$dataclass":"codec_values:Box","content":3}'),
    (cv.Point(1), '{"$namedtuple":"codec_values:Point","x":1,"y":2}'),
    (cv.Pair("a", [cv.Point(1)]), None),
]


@pytest.mark.parametrize(("value", "text"), FORMS, ids=[str(form[1])[:50] for form in FORMS])
def test_a_value_has_its_text_and_comes_back(value: object, text: str | None) -> None:
    encoded = encode(value)
    if text is not None:
        assert encoded == text
    json.loads(encoded)
    assert "\n" not in encoded
    assert cv.same(decode(encoded), value)


def test_zones_and_folds_come_back() -> None:
    named = dt.timezone(dt.timedelta(hours=2), "X")
    for zone in (None, dt.UTC, named, BERLIN):
        for fold in (0, 1):
            there = dt.datetime(2026, 10, 25, 2, 30, 0, 5, tzinfo=zone, fold=fold)
            back = decode(encode(there))
            assert back == there
            assert back.fold == fold
            assert back.tzinfo is zone or back.tzinfo == zone
            assert back.tzname() == there.tzname()
            assert back.utcoffset() == there.utcoffset()


def test_a_timezone_is_the_one_object_again() -> None:
    assert decode(encode(dt.UTC)) is dt.UTC
    assert decode(encode(BERLIN)) is BERLIN


def test_members_of_enums_are_the_same_objects() -> None:
    for member in (cv.Color.RED, cv.Color.BLUE, cv.Level.LOW, cv.Rights.READ, cv.Rights(3)):
        assert decode(encode(member)) is member


def test_the_code_of_a_dataclass_does_not_run_again() -> None:
    busy = cv.Busy(4)
    assert busy.lock is not None
    ran = cv.Busy.ran
    back = decode(encode(busy))
    assert back == busy
    assert cv.Busy.ran == ran
    # An attribute that is no field is kept; what is worked out on demand is not.
    assert back.double == 8
    assert "lock" not in vars(back)


def test_attributes_of_a_named_tuple_are_kept() -> None:
    there = cv.Labelled(1, 2)
    there.label = "x"
    back = decode(encode(there))
    assert type(back) is cv.Labelled
    assert back == there
    assert back.label == "x"


def test_a_frozen_instance_is_hashed_like_the_first() -> None:
    assert hash(decode(encode(cv.Frozen((1, 2))))) == hash(cv.Frozen((1, 2)))


def test_a_class_may_get_fields_with_defaults() -> None:
    assert decode('{"$dataclass":"codec_values:Plain","a":1}') == cv.Plain(1, 2)
    assert decode('{"$dataclass":"codec_values:Child","a":1}').c == []
    assert decode('{"$namedtuple":"codec_values:Point","x":5}') == cv.Point(5, 2)


def test_names_that_look_alike_are_kept_apart() -> None:
    """The decoder remembers names by a few of their letters."""
    many = [{f"a{n:03}b{m}z": n for n in range(50)} for m in range(3)]
    assert decode(encode(many + many)) == many + many


def test_shared_parts_come_back_as_parts_of_their_own() -> None:
    part: list[int] = []
    back = decode(encode([part, part]))
    assert back == [[], []]
    assert back[0] is not back[1]


def test_the_limit_of_depth_is_the_same_both_ways() -> None:
    def nested(levels: int, wrap: object) -> object:
        value: object = 0
        for _ in range(levels):
            value = wrap(value)  # type: ignore[operator]
        return value

    wraps = [
        lambda v: [v],
        lambda v: {"a": v},
        lambda v: (v,),
        lambda v: {1: v},
        lambda v: cv.Plain(v),
        lambda v: frozenset([v]),
    ]
    for wrap in wraps:
        text = encode(nested(1000, wrap))
        assert encode(decode(text)) == text
        with pytest.raises(TypeError, match="nested deeper than 1000 levels"):
            encode(nested(1001, wrap))


def test_depth_needs_no_stack() -> None:
    """A thread with little stack has enough for the deepest value."""
    deep: object = 0
    for _ in range(1000):
        deep = cv.Plain(deep)
    found: list[str] = []

    def work() -> None:
        found.append(encode(deep))
        decode(found[0])

    before = threading.stack_size(64 * 1024)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found[0].count("$dataclass") == 1000


def seeded() -> str:
    """The text of values that have another order in every process."""
    words = [f"word-{n}" for n in range(200)]
    sets = [set(words), frozenset(words), {frozenset(words[:9]): 1}]
    return encode([*sets, {(word, cv.Level.LOW) for word in words}])


def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    texts = {seeded()}
    for seed in ("0", "1", "2", "12345"):
        env = dict(os.environ, PYTHONHASHSEED=seed, PYTHONPATH=os.path.dirname(__file__))
        program = "import test_codec; print(test_codec.seeded())"
        command = [sys.executable, "-X", "utf8", "-c", program]
        done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=True)
        texts.add(done.stdout.decode().strip())
    assert len(texts) == 1
    assert len(texts.pop()) > 10_000


def test_a_class_of_the_main_program_is_there_after_a_restart(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(
        "import dataclasses, sys\n"
        "from tiffany._core import encode, decode\n"
        "@dataclasses.dataclass\n"
        "class Order:\n"
        "    n: int\n"
        "if len(sys.argv) == 1: print(encode(Order(3)))\n"
        "else: print(decode(sys.argv[1]) == Order(3))\n"
    )

    def run(*args: str) -> str:
        command = [sys.executable, str(program), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    text = run()
    assert text == '{"$dataclass":"app:Order","n":3}'
    assert run(text) == "True"


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text().filter(lambda name: not name.startswith("$")), inner)
    ),
    max_leaves=30,
)

zones = st.none() | st.timezones() | st.just(dt.UTC)
# Lone surrogates too.
texts = st.text(st.characters(codec=None, exclude_categories=()))
hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**290, max_value=10**320)
    | st.floats(allow_nan=False)
    | texts
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.dates()
    | st.datetimes(timezones=zones)
    | st.times(timezones=st.just(dt.UTC) | st.none())
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.sampled_from([*cv.Color, *cv.Level, cv.Rights(3), range(3)])
    | texts.map(lambda text: pathlib.PurePosixPath(text.replace("\0", ""))),
    lambda inner: (
        st.tuples(inner, inner)
        | st.frozensets(inner, max_size=4)
        | st.builds(cv.Point, inner, inner)
        | st.builds(cv.Frozen, inner)
    ),
    max_leaves=6,
)
anything = st.recursive(
    hashable | st.floats() | st.binary().map(bytearray) | st.complex_numbers(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(texts, inner)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
        | st.builds(cv.Plain, inner, inner)
        | st.builds(cv.Pair, inner, inner)
        | st.builds(cv.Box, inner)
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(plain)
def test_plain_values_are_plain_json(value: object) -> None:
    text = encode(value)
    assert json.loads(text) == value
    assert cv.same(decode(text), value)
    # What others wrote is read too.
    assert cv.same(decode(json.dumps(value)), value)
    assert cv.same(decode(json.dumps(value, indent=1, ensure_ascii=False)), value)


@settings(max_examples=400, deadline=None)
@given(anything)
def test_any_value_comes_back(value: object) -> None:
    text = encode(value)
    assert isinstance(text, str)
    assert cv.same(decode(text), value)
    # The same text again: nothing of it depends on how the value came about.
    assert encode(decode(text)) == text


def test_dataclasses_know_nothing_of_it() -> None:
    assert dataclasses.asdict(decode(encode(cv.Plain(1)))) == {"a": 1, "b": 2}
