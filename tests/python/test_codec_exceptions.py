"""Exceptions in the log: made anew from type and args, live and on replay alike."""

from __future__ import annotations

import json
from typing import Any

import codec_values as cv
import pytest
from tiffany._core import decode, decode_exception, encode, encode_exception
from tiffany.codec import NotSerializableError, UnknownException, UnreadableError
from tiffany.errors import DeadlockError


class Refused(Exception):
    """Its arguments are not those of its `__init__`, which must not run again."""

    ran = 0

    def __init__(self, code: int, why: str) -> None:
        type(self).ran += 1
        super().__init__(f"refused with {code}: {why}")
        self.code = code
        self.why = why


class OneArgument(Exception):
    """Its `__init__` would take what it made, and make something else of it."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")


class SaysHow(Exception):
    __slots__ = ("hidden",)

    def __init__(self, hidden: object) -> None:
        super().__init__("says how")
        self.hidden = hidden

    def __reduce__(self) -> tuple[Any, ...]:
        return (SaysHow, (self.hidden,))


class MyOsError(OSError):
    def __init__(self, errno: int, text: str, name: str, more: object) -> None:
        super().__init__(errno, text, name)
        self.more = more


class NoText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")

    def __reduce_ex__(self, protocol: object) -> Any:
        raise RuntimeError("no")


class Lock:
    def __repr__(self) -> str:
        return "<a lock>"


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def again(exception: BaseException) -> Any:
    text = encode_exception(exception)
    json.loads(text)
    assert "\n" not in text
    return decode_exception(text)


MANY = [
    ValueError("x"),
    ValueError(),
    KeyError("k"),
    StopIteration(5),
    SystemExit(3),
    KeyboardInterrupt(),
    OSError(2, "No such file", "name"),
    FileNotFoundError(2, "No such file", "a", None, "b"),
    ConnectionResetError(104, "reset"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    UnicodeEncodeError("ascii", "é", 0, 1, "bad"),
    ImportError("no", name="n", path="p"),
    SyntaxError("bad", ("file.py", 1, 2, "code", 1, 3)),
    Refused(404, "gone"),
    OneArgument(3),
    SaysHow((1, 2)),
    MyOsError(5, "broken", "disk", {1, 2}),
    DeadlockError("stuck"),
    TimeoutError("late", cv.Plain(1)),
]


@pytest.mark.parametrize("there", MANY, ids=lambda there: type(there).__name__)
def test_an_exception_comes_back(there: BaseException) -> None:
    ran = Refused.ran
    for back in (again(there), decode(encode(there))):
        assert type(back) is type(there)
        assert cv.same(back.args, there.args)
        assert str(back) == str(there)
        assert vars(back) == vars(there)
        for name in (
            "errno",
            "filename",
            "filename2",
            "value",
            "code",
            "object",
            "name",
            "path",
            "lineno",
            "hidden",
        ):
            assert getattr(back, name, None) == getattr(there, name, None), name
    assert Refused.ran == ran


def test_notes_and_causes_come_back() -> None:
    there = ValueError("outer")
    there.add_note("first")
    there.add_note("second")
    there.__cause__ = Refused(1, "inner")
    there.__cause__.__cause__ = KeyError("innermost")
    back = again(there)
    assert back.__notes__ == ["first", "second"]
    assert type(back.__cause__) is Refused
    assert back.__cause__.why == "inner"
    assert cv.same(getattr(back.__cause__.__cause__, "args", None), ("innermost",))
    text = encode_exception(there)
    assert text.startswith(
        '{"$exception":"builtins:ValueError","args":["outer"],"message":"outer","notes":["first","second"],"cause":{'
    )


def test_a_chain_of_causes_has_an_end() -> None:
    there = ValueError("round")
    there.__cause__ = there
    back = again(there)
    depth = 0
    while back is not None:
        back, depth = back.__cause__, depth + 1
    assert depth == 17
    long = ValueError(0)
    for n in range(1, 5000):
        outer = ValueError(n)
        outer.__cause__, long = long, outer
    assert again(long).args == (4999,)


def test_what_has_no_form_is_there_as_text() -> None:
    there = Refused(1, "x")
    there.args = ("a", Lock(), NoRepr(), "\ud800")
    there.lock = Lock()  # type: ignore[attr-defined]
    back = again(there)
    assert back.args == ("a", "<a lock>", "<something that has no text>", "\ud800")
    assert back.lock == "<a lock>"
    assert f'{{"$text":"<a lock>","of":"{__name__}:Lock"}}' in encode_exception(there)
    assert len(encode_exception(ValueError([Lock()] * 100_000))) < 6000
    assert again(ValueError("é" * 9999)).args == ("é" * 9999,)
    # As part of a value it is an error, like everything else.
    with pytest.raises(NotSerializableError) as caught:
        encode([there])
    assert caught.value.path == "[0].args[1]"


def test_an_exception_that_cannot_speak_is_written() -> None:
    back = again(NoText("x"))
    assert type(back) is NoText
    assert back.args == ("x",)
    assert "<an exception that has no text>" in encode_exception(NoText("x"))


def test_groups_come_back() -> None:
    there = ExceptionGroup(
        "many", [ValueError(1), ExceptionGroup("in", [Refused(1, "x"), KeyError(Lock())])]
    )
    back = again(there)
    assert type(back) is ExceptionGroup
    assert back.message == "many"
    assert type(back.exceptions[1].exceptions[0]) is Refused
    assert back.exceptions[1].exceptions[1].args == ("<a lock>",)


def test_an_exception_of_a_class_that_is_not_here_is_told_of() -> None:
    class Inside(Exception):
        pass

    for text, name in [
        (encode_exception(Inside("why")), f"{__name__}:test_an_exception_of"),
        ('{"$exception":"gone:Error","args":["why"],"message":"why"}', "gone:Error"),
        ('{"$exception":"builtins:int","args":[1],"message":"why"}', "builtins:int"),
        ('{"$exception":"os:system","args":["true"],"message":"why"}', "os:system"),
    ]:
        back = decode_exception(text)
        assert isinstance(back, UnknownException)
        assert back.type_name.startswith(name)
        assert back.message == "why"
        assert str(back) == f"{back.type_name}: why"
        with pytest.raises(UnreadableError):
            decode(text)


def test_an_unknown_cause_or_member_is_stood_for() -> None:
    text = (
        '{"$exception":"builtins:ValueError","args":[1],"message":"1",'
        '"cause":{"$exception":"gone:Error","args":[],"message":"why","cause":'
        '{"$exception":"builtins:KeyError","args":["k"],"message":"k"}}}'
    )
    back = decode_exception(text)
    assert type(back) is ValueError
    assert isinstance(back.__cause__, UnknownException)
    assert type(back.__cause__.__cause__) is KeyError
    unknown = decode_exception(text[text.index('"cause":') + 8 : -1])
    assert isinstance(unknown, UnknownException)
    assert type(unknown.__cause__) is KeyError


def test_what_is_no_exception_is_an_error() -> None:
    for text in ("1", "{}", '{"$tuple":[]}', "", '{"$exception":5}'):
        with pytest.raises(UnreadableError):
            decode_exception(text)
    with pytest.raises(TypeError):
        encode_exception(5)  # type: ignore[arg-type]


class Interrupts(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_ctrl_c_while_an_exception_is_written_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        encode_exception(Interrupts())
    with pytest.raises(KeyboardInterrupt):
        encode_exception(ValueError([Interrupts()]))
