"""Types that the user teaches the codec, and pydantic models."""

from __future__ import annotations

import datetime as dt
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import codec_values as cv
import pydantic
import pytest
from tiffany import codec
from tiffany.codec import NotSerializableError, UnreadableError, decode, encode
from tiffany.errors import BadArgumentError

HERE = __name__


def model(name: str, *fields: str) -> str:
    """The text of a model of this file."""
    return "{" + ",".join([f'"$model":"{HERE}:{name}"', *fields]) + "}"


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and other.cents == self.cents

    __hash__ = object.__hash__


class Dollars(Money):
    pass


class Bad:
    pass


codec.register(Money, "cents", lambda money: money.cents, Money)


def test_a_registered_type_comes_back() -> None:
    assert encode({"a": [Money(5)]}) == '{"a":[{"$custom":"cents","value":5}]}'
    assert decode(encode({"a": [Money(5)]})) == {"a": [Money(5)]}


def test_what_a_hook_gives_is_encoded_in_turn() -> None:
    class Pair:
        def __init__(self, parts: tuple[object, ...]) -> None:
            self.parts = parts

    codec.register(Pair, "pair", lambda pair: pair.parts, Pair)
    back = decode(encode(Pair((Money(1), {dt.date(2026, 1, 1)}))))
    assert type(back) is Pair
    assert back.parts == (Money(1), {dt.date(2026, 1, 1)})


def test_a_hook_is_for_exactly_its_type() -> None:
    with pytest.raises(NotSerializableError, match="Dollars"):
        encode(Dollars(5))


def test_a_hook_goes_before_what_is_built_in() -> None:
    class Special(cv.Plain):
        pass

    codec.register(Special, "special", lambda value: value.a, lambda a: Special(a))
    assert encode(Special(1)) == '{"$custom":"special","value":1}'


def test_the_errors_of_a_hook_are_told() -> None:
    codec.register(Bad, "bad", lambda bad: 1 / 0, lambda payload: payload)
    with pytest.raises(NotSerializableError) as caught:
        encode({"x": [Bad()]})
    assert caught.value.path == ".x[0]"
    assert "the `encode` of `bad` failed: ZeroDivisionError" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(UnreadableError, match=f"returned a `int` and not a `{HERE}:Bad`"):
        decode('{"$custom":"bad","value":5}')
    codec.register(Bad, "bad", lambda bad: bad, lambda payload: payload)
    with pytest.raises(NotSerializableError, match="contains itself"):
        encode([Bad()])
    codec.register(Bad, "bad", lambda bad: [Bad()], lambda payload: payload)
    with pytest.raises(NotSerializableError, match="deeper than 1000"):
        encode([Bad()])
    codec.register(Bad, "bad", lambda bad: {"a": object()}, lambda payload: payload)
    with pytest.raises(NotSerializableError) as caught:
        encode([Bad()])
    assert caught.value.path == "[0].a"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((5, "five", repr, repr), "5 is not a type"),
        ((int, "int", repr, repr), "is written as it is in JSON"),
        ((type(None), "none", repr, repr), "is written as it is in JSON"),
        ((Money, "", repr, repr), "is not a name"),
        ((Money, "a:b", repr, repr), "is not a name"),
        ((Money, "$a", repr, repr), "is not a name"),
        ((Money, "cents", 5, repr), "`encode` for `cents` cannot be called"),
        ((Money, "cents", repr, None), "`decode` for `cents` cannot be called"),
        ((Dollars, "cents", repr, repr), f"the name `cents` is taken by `{HERE}:Money`"),
    ],
)
def test_a_wrong_registration_is_an_error(args: tuple[Any, ...], why: str) -> None:
    with pytest.raises(BadArgumentError) as caught:
        codec.register(*args)
    assert why in str(caught.value)
    assert "[TFY0032]; " in str(caught.value)
    assert decode('{"$custom":"cents","value":5}') == Money(5)


def make(cls: type[Any]) -> Callable[[object], Any]:
    return lambda _: cls()


def test_a_class_that_is_defined_anew_takes_its_name_over() -> None:
    """As when a cell of a notebook is run again."""
    gone: list[weakref.ref[type]] = []
    for turn in range(3):

        class Cell:
            n = turn

        codec.register(Cell, "cell", lambda cell: None, make(Cell))
        assert decode(encode(Cell())).n == turn
        gone.append(weakref.ref(Cell))
        del Cell
    gc.collect()
    assert [ref() is None for ref in gone] == [True, True, False]


def test_a_type_may_be_given_another_name() -> None:
    class Moved:
        pass

    codec.register(Moved, "before", lambda _: 0, lambda _: Moved())
    codec.register(Moved, "after", lambda _: 0, lambda _: Moved())
    assert encode(Moved()) == '{"$custom":"after","value":0}'
    with pytest.raises(UnreadableError, match="no codec is registered for the type `before`"):
        decode('{"$custom":"before","value":0}')


def test_threads_may_register_and_encode_at_once() -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        made = type(f"Made{number}", (), {})
        for _ in range(200):
            codec.register(made, f"made{number}", lambda _: number, lambda _: made())
            if encode([made(), Money(1)]) != (
                f'[{{"$custom":"made{number}","value":{number}}},{{"$custom":"cents","value":1}}]'
            ):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Complexes:
    """Writes tuples and sets in its own way, and lets the rest pass."""

    def encode(self, value: Any) -> object:
        if type(value) is tuple:
            return list(value)
        if isinstance(value, type):
            return value.__name__
        return NotImplemented

    def decode(self, tag: str, payload: Any) -> object:
        if tag == "builtins:tuple":
            return tuple(payload)
        if tag == "builtins:type":
            return {"int": int, "str": str}[payload]
        return NotImplemented


@pytest.fixture
def plugged() -> Iterator[Complexes]:
    own = Complexes()
    codec.plug(own)
    codec.plug(own)
    yield own
    assert codec.unplug(own)
    assert not codec.unplug(own)
    assert encode((1,)) == '{"$tuple":[1]}'


def test_a_plugged_codec_is_asked_first(plugged: Complexes) -> None:
    text = encode([(1, int), {2}, cv.Plain(3)])
    assert text == (
        '[{"$custom":"builtins:tuple","value":[1,{"$custom":"builtins:type","value":"int"}]},'
        '{"$set":[2]},{"$dataclass":"codec_values:Plain","a":3,"b":2}]'
    )
    assert decode(text) == [(1, int), {2}, cv.Plain(3)]
    with pytest.raises(NotSerializableError, match="a `object` has no form"):
        encode(object())
    with pytest.raises(
        UnreadableError, match=f"the `decode` of `{HERE}:Complexes` failed: KeyError"
    ):
        decode('{"$custom":"builtins:type","value":"float"}')
    with pytest.raises(UnreadableError, match="no codec is registered for the type `other`"):
        decode('{"$custom":"other","value":1}')


def test_what_is_no_codec_cannot_be_plugged() -> None:
    with pytest.raises(BadArgumentError, match="has no method `encode`"):
        codec.plug(5)  # type: ignore[arg-type]


class Address(pydantic.BaseModel):
    street: str


class FullAddress(Address):
    city: str


class User(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    name: str = pydantic.Field(alias="userName")
    home: Address
    anything: Any = None
    secret: str = pydantic.Field(default="s", exclude=True)
    born: dt.date | None = None
    tags: set[str] = set()

    @pydantic.field_validator("name")
    @classmethod
    def shouts(cls, name: str) -> str:
        return name + "!"

    @pydantic.computed_field
    def initial(self) -> str:
        return self.name[0]


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    n: int
    _count: int = pydantic.PrivateAttr(default=0)


class Numbers(pydantic.RootModel[list[int]]):
    pass


def test_a_model_comes_back() -> None:
    user = User(
        userName="ada",
        home=FullAddress(street="a", city="b"),
        anything=(Address(street="c"), Money(1)),
        secret="hidden",
        tags={"y", "x"},
    )
    back = decode(encode(user))
    assert type(back) is User
    assert back == user
    # Validators did not run again, and no class or field got lost.
    assert back.name == "ada!"
    assert type(back.home) is FullAddress
    assert back.home.city == "b"
    assert back.anything == (Address(street="c"), Money(1))
    assert back.secret == "hidden"
    assert back.model_fields_set == user.model_fields_set
    assert encode(Address(street="a")) == model("Address", '"street":"a"')


def test_the_hidden_parts_of_a_model_come_back() -> None:
    there = Open(n=1, **{"more": (1,), "$x": 2})
    there._count = 5
    back = decode(encode(there))
    assert back == there
    assert back._count == 5
    assert back.model_extra == {"more": (1,), "$x": 2}
    assert decode(encode(Numbers([1, 2]))) == Numbers([1, 2])
    assert decode(encode(Numbers([1, 2]))).root == [1, 2]


def test_a_model_that_changed_is_an_error_or_has_defaults() -> None:
    with pytest.raises(UnreadableError, match=f"no field `street`, which `{HERE}:Address` needs"):
        decode(model("Address"))
    with pytest.raises(UnreadableError, match=f"`{HERE}:Address` has no field `zip`"):
        decode(model("Address", '"street":"a"', '"zip":1'))
    with pytest.raises(UnreadableError, match="is not a pydantic model any more"):
        decode(model("Money"))
    text = model("User", '"name":"a"', '"home":null')
    assert decode(text).tags == set()
    with pytest.raises(NotSerializableError) as error:
        encode({"u": [User(userName="a", home=Address(street=""), anything=object())]})
    assert error.value.path == ".u[0].anything"


def test_pydantic_is_not_imported_for_those_who_do_not_use_it() -> None:
    program = (
        "import sys, dataclasses\n"
        "from tiffany._core import encode, decode\n"
        "before = set(sys.modules)\n"
        "@dataclasses.dataclass\n"
        "class A:\n    n: int\n"
        "assert decode(encode([A(1), (2,), {3}])) == [A(1), (2,), {3}]\n"
        "try: encode(object())\n"
        "except TypeError: pass\n"
        "unwanted = set(sys.modules) - before - {'enum', 'dataclasses', 'functools', 'binascii'}\n"
        "assert not unwanted, unwanted\n"
    )
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
