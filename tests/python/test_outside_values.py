"""Values that come from outside the program (HTTP, the command line): plain JSON, received as it was sent or refused before it is acknowledged."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from command_kit import TIMEOUT_SECONDS, Home, Started
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROGRAM = """
import dataclasses
import datetime
import json
import os

import tiffany


@dataclasses.dataclass
class Card:
    number: str


@tiffany.workflow
async def collect(count: int) -> str:
    got = [await tiffany.receive_message("m") for _ in range(count)]
    return json.dumps(got)


@tiffany.workflow
async def settled(count: int) -> str:
    promises = [await tiffany.create_external_promise() for _ in range(count)]
    tiffany.durable.on_question("promises", lambda: [str(promise.uuid) for promise in promises])
    tiffany.durable.on_question("same", lambda value: json.dumps(value))
    await tiffany.receive_message("go")
    return json.dumps([await promise.future for promise in promises])


@tiffany.workflow
async def echo(value: object) -> str:
    return json.dumps(value)


@tiffany.workflow
async def dated(day: datetime.date, card: Card | None = None) -> str:
    return repr((day, card))


@tiffany.step(kind="at_most_once", hold_in_doubt=True)
def charge(path: str) -> object:
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(1)


@tiffany.workflow
async def charged(path: str) -> str:
    return json.dumps(await charge(path))


@tiffany.step
def card() -> Card:
    return Card("1")


@tiffany.workflow
async def carded() -> str:
    return repr(await card())
"""

TAGGED: list[Any] = [
    {"$ref": "#/x"},
    {"$set": {"price": 3}},
    {"$set": [1, 1]},
    {"$exception": "builtins:SystemExit", "args": [1], "message": ""},
    {"$dataclass": "app:Card", "number": "1"},
    {"$path": "/etc/passwd"},
    {"$plain": {"$plain": 1}},
    {"$json": {"$blob": "00", "len": 1}},
    {"$blob": "0" * 64, "len": 3},
    {"$base64": "aGk="},
    {"a": 1, "$b": {"$tuple": [1, 2]}},
    [{"deep": [{"$tuple": [1, {"$dict": [["a", 1]]}]}]}],
    {"": {"$": {"$$": None}}},
]

REFUSED = [
    "1e999",
    "-1e999",
    '{"a":[1,1e400]}',
    "9" * 400,
    '"\\ud800"',
    '["\\udc00\\ud800"]',
    '{"\\ud800":1}',
    "[" * 101 + "]" * 101,
    '{"a":' * 101 + "1" + "}" * 101,
    "[" * 100_000 + "]" * 100_000,
    '{"a":1,"a":2}',
    '[{"b":{"a":1,"\\u0061":2}}]',
]


class Daemon:
    """A daemon that serves the program, and its API."""

    def __init__(self, started: Started) -> None:
        self.url = json.loads(started.line())["url"] + "/api/v1"
        self.runs = 0

    def ask(self, path: str, body: str | None = None) -> Any:
        data = None if body is None else body.encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def refused(self, path: str, body: str) -> tuple[int, str]:
        try:
            answer = self.ask(path, body)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["code"]
        raise AssertionError(f"{body[:100]} was not refused: {answer}")

    def start(self, function: str, given: Any) -> str:
        self.runs += 1
        id = f"{function}-{self.runs}"
        self.ask("/runs", json.dumps({"function": function, "id": id, "input": given}))
        return id

    def value(self, run: str) -> Any:
        shown = self.ask(f"/runs/{run}?wait=30")
        assert shown["state"] == "completed", shown
        return shown["value"]

    def promises(self, run: str) -> list[str]:
        """Those of a run of `settled`, once it has made all of them."""
        while True:
            try:
                return list(self.ask(f"/runs/{run}/queries/promises", "{}")["answer"])
            except urllib.error.HTTPError as error:
                assert json.loads(error.read())["code"] == "TFY0044"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = Home(tmp_path_factory.mktemp("outside"))
    home.write("app.py", PROGRAM)
    listen = ("serve", "--json", "--listen", "127.0.0.1:0")
    with home.start("--app", "app.py", *listen) as started:
        yield Daemon(started)
        started.process.kill()


def received(daemon: Daemon, values: list[Any]) -> list[Any]:
    run = daemon.start("collect", {"count": len(values)})
    for value in values:
        daemon.ask(f"/runs/{run}/messages", json.dumps({"name": "m", "message": value}))
    return list(json.loads(daemon.value(run)))


def settled(daemon: Daemon, values: list[Any]) -> list[Any]:
    run = daemon.start("settled", {"count": len(values)})
    for uuid, value in zip(daemon.promises(run), values, strict=True):
        assert daemon.ask(f"/promises/{uuid}", json.dumps({"value": value}))["first"]
    daemon.ask(f"/runs/{run}/messages", '{"name":"go","message":null}')
    return list(json.loads(daemon.value(run)))


def test_objects_that_look_like_tags_are_received_as_they_were_sent(daemon: Daemon) -> None:
    assert received(daemon, TAGGED) == TAGGED
    assert settled(daemon, TAGGED) == TAGGED
    for value in TAGGED:
        assert json.loads(daemon.value(daemon.start("echo", {"value": value}))) == value


def test_a_question_is_asked_with_plain_json(daemon: Daemon) -> None:
    run = daemon.start("settled", {"count": 1})
    daemon.promises(run)
    for value in TAGGED:
        asked = json.dumps({"input": [value]})
        answer = daemon.ask(f"/runs/{run}/queries/same", asked)["answer"]
        assert json.loads(answer) == value


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_no_program_could_read_is_refused_before_it_is_acknowledged(
    daemon: Daemon, text: str
) -> None:
    refused = (422, "TFY0220")
    run = daemon.start("collect", {"count": 1})
    assert daemon.refused(f"/runs/{run}/messages", f'{{"name":"m","message":{text}}}') == refused
    waits = daemon.start("settled", {"count": 1})
    (uuid,) = daemon.promises(waits)
    assert daemon.refused(f"/promises/{uuid}", f'{{"value":{text}}}') == refused
    assert daemon.refused(f"/runs/{waits}/queries/same", f'{{"input":[{text}]}}') == refused
    started = f'{{"function":"echo","id":"never","input":{{"value":{text}}}}}'
    assert daemon.refused("/runs", started) == refused
    # It had no effect: both continue with the next message.
    daemon.ask(f"/runs/{run}/messages", '{"name":"m","message":"fine"}')
    assert daemon.value(run) == '["fine"]'
    daemon.ask(f"/promises/{uuid}", '{"value":7}')
    daemon.ask(f"/runs/{waits}/messages", '{"name":"go","message":null}')
    assert daemon.value(waits) == "[7]"


def test_the_deepest_value_is_received(daemon: Daemon) -> None:
    lists: Any = 1
    tags: Any = 1
    for _ in range(100):
        lists, tags = [lists], {"$x": tags}
    assert received(daemon, [lists, tags]) == [lists, tags]
    assert settled(daemon, [lists, tags]) == [lists, tags]


NAMES = st.one_of(
    st.sampled_from(["$ref", "$set", "$tuple", "$dict", "$plain", "$json", "$blob", "$enum", "a"]),
    st.text(max_size=5),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**200), 2**200),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda parts: st.one_of(st.lists(parts, max_size=4), st.dictionaries(NAMES, parts, max_size=4)),
    max_leaves=20,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(VALUES, min_size=1, max_size=6))
def test_any_json_is_received_equal(daemon: Daemon, values: list[Any]) -> None:
    assert received(daemon, values) == values
    assert settled(daemon, values) == values


def test_an_input_is_made_what_the_parameters_say_and_never_by_a_tag(daemon: Daemon) -> None:
    run = daemon.start("dated", {"day": "2026-11-17", "card": {"number": "1"}})
    assert daemon.value(run) == "(datetime.date(2026, 11, 17), Card(number='1'))"
    for tagged in (
        {"day": {"$date": "2026-11-17"}},
        {"day": "2026-11-17", "card": {"$dataclass": "app:Card", "number": "1"}},
    ):
        body = json.dumps({"function": "dated", "id": "never", "input": tagged})
        assert daemon.refused("/runs", body) == (422, "TFY0035")


def test_decisions_and_changed_answers_of_forks_are_plain_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("app.py", PROGRAM)
    words = ("--app", "app.py", "serve", "--json", "--listen", "127.0.0.1:0")
    path = str(tmp_path / "begun")
    with home.start(*words) as started:
        daemon = Daemon(started)
        body = json.dumps({"function": "charged", "id": "c", "input": {"path": path}})
        # The step ends its process, perhaps before there is an answer.
        with contextlib.suppress(OSError):
            daemon.ask("/runs", body)
        assert started.end().code == 1
    with home.start(*words) as started:
        daemon = Daemon(started)
        while not (doubts := daemon.ask("/doubts")["doubts"]):
            pass
        key = doubts[0]["key"]
        for text in REFUSED:
            body = f'{{"key":{json.dumps(key)},"done":{text}}}'
            assert daemon.refused("/doubts", body) == (422, "TFY0220")
        tagged = {"$exception": "builtins:SystemExit", "args": [1], "message": ""}
        daemon.ask("/doubts", json.dumps({"key": key, "done": tagged}))
        assert json.loads(daemon.value("c")) == tagged

        assert daemon.value(daemon.start("carded", {})) == "Card(number='1')"
        at = answered(daemon, "carded-1")
        fork = "/runs/carded-1/forks"
        for text in REFUSED:
            assert daemon.refused(fork, f'{{"at":{at},"value":{text}}}') == (422, "TFY0220")
        # Tags that the recorded answer has at the same place keep their meaning: here a card with another number.
        other = {"$dataclass": "app:Card", "number": "2"}
        made = daemon.ask(fork, json.dumps({"at": at, "value": other}))
        assert daemon.value(made["id"]) == "Card(number='2')"
        # All others are plain.
        for plain in (
            {"$exception": "builtins:SystemExit", "args": [1], "message": ""},
            {"$dataclass": "app:Other", "number": "2"},
            {"$dataclass": "app:Card", "number": {"$path": "/etc"}},
        ):
            body = json.dumps({"at": at, "value": plain, "as_is": True})
            assert daemon.value(daemon.ask(fork, body)["id"]) == repr(plain)
        started.process.kill()


def answered(daemon: Daemon, run: str) -> int:
    """The record with the result of its only step."""
    records = daemon.ask(f"/runs/{run}/records")["records"]
    (at,) = [record["seq"] for record in records if record["type"] == "EffectResult"]
    return int(at)


def test_values_of_python_keep_their_types(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("app.py", PROGRAM)
    words = ("--app", "app.py", "serve", "--json", "--listen", "127.0.0.1:0")
    with home.start(*words) as started:
        daemon = Daemon(started)
        run = daemon.start("collect", {"count": 2})
        with tiffany.connect(tmp_path / ".tiffany") as connection:
            connection.send(run, "m", {"$ref": ("a", "tuple")})
            connection.send(run, "m", (1, 2))
        assert json.loads(daemon.value(run)) == [{"$ref": ["a", "tuple"]}, [1, 2]]
        started.process.kill()
