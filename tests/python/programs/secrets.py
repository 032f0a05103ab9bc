"""A program with a secret in each place where Python can put one. Its first process kills itself in a step; the second goes on, and fails as `tiffany run` shows it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import tiffany
from tiffany import Runtime, attempt, step, workflow
from tiffany.calls import CreateExternalPromise, Get, Put, ReceiveMessage, Spawn, Tell, Wait
from tiffany.durable import on_question

PLACES = [
    "answer",
    "argument",
    "blob",
    "bytes",
    "chunk",
    "checkpoint",
    "dataclass",
    "decimal",
    "error",
    "exception_argument",
    "field",
    "input",
    "key_of_dict",
    "message",
    "note",
    "output",
    "promise",
    "promise_error",
    "result",
    "step_error",
    "store_key",
    "store_value",
    "task_error",
    "task_name",
    "told",
    "tuple",
    "unobserved",
    "variable",
]

WITHOUT_RULES = bool(os.environ.get("TIFFANY_TEST_WITHOUT"))
RULES = [
    "pattern sk-[a-z]+-[0-9]{6}",
    r"pattern \b4242[0-9]{6}\b",
    "field password",
    "env TIFFANY_TEST_SECRET",
]


def secret(place: str) -> str:
    number = PLACES.index(place)
    match place:
        case "decimal":
            return f"4242{number:06}"
        case "field" | "dataclass":
            return f"hunter{number:06}"
        case "variable":
            return 'the "quoted" seçret'
        case _:
            return f"sk-{place.replace('_', '')}-{number:06}"


def here() -> Path:
    return Path(os.environ["TIFFANY_TEST_HERE"])


@dataclass
class Account:
    name: str
    password: str


class Refused(Exception):
    pass


@step
def pay(account: Account, argument: str) -> dict[str, Any]:
    assert here().joinpath("killed").exists() or account.password == secret("dataclass")
    return {"receipt": secret("result"), secret("key_of_dict"): b"raw " + secret("bytes").encode()}


@step(retries=2)
def flaky() -> int:
    at = attempt()
    if at.number == 1:
        raise ValueError(secret("step_error"))
    at.checkpoint({"at": secret("checkpoint")})
    at.chunk(secret("chunk"))
    return 1


@step
def large() -> list[str]:
    return ["padding" * 10_000, secret("blob")]


@step
def refuse() -> None:
    error = Refused(secret("exception_argument"), os.environ["TIFFANY_TEST_SECRET"])
    error.add_note(secret("note"))
    raise error


@step
def tell_outside(name: str, uuid: str) -> None:
    here().joinpath(name).write_text(uuid)


@step
def crash() -> int:
    mark = here() / "killed"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def fails(text: str) -> Generator[Any, Any, None]:
    yield Get("nothing")
    raise RuntimeError(text)


@workflow
def shop(token: str, password: dict[str, str], amount: Decimal) -> Generator[Any, Any, Any]:
    # A first life has the real values, and a later one what stands for them.
    first = WITHOUT_RULES or not here().joinpath("killed").exists()
    assert first == (token == secret("input"))
    assert first == (password["password"] == secret("field"))
    assert first == (amount == Decimal(secret("decimal")))
    on_question("token", lambda: (token, secret("answer")))
    account = Account("ada", secret("dataclass"))
    given = yield pay(account, secret("argument"))
    assert not first or given["receipt"] == secret("result")
    yield flaky()
    yield Put(secret("store_key"), (secret("store_value"), secret("tuple")))
    yield Tell(secret("told"))
    blob = yield large()
    assert not first or blob[1] == secret("blob")
    child = yield Spawn(fails(secret("task_error")), name=secret("task_name"))
    try:
        yield Wait(child)
    except RuntimeError as error:
        assert not first or str(error) == secret("task_error")
    yield Spawn(fails(secret("unobserved")))
    try:
        yield refuse()
    except Refused as error:
        assert not first or error.args[0] == secret("exception_argument")
    promise = yield CreateExternalPromise()
    yield tell_outside("promise", str(promise.uuid))
    settled = yield Wait(promise.future)
    assert not first or settled == secret("promise")
    other = yield CreateExternalPromise()
    yield tell_outside("refused", str(other.uuid))
    with contextlib.suppress(tiffany.TiffanyError):
        yield Wait(other.future)
    message = yield ReceiveMessage("order")
    assert not first or message == {"key": secret("message")}
    yield crash()
    return {"out": secret("output")}


@workflow
def burns() -> Generator[Any, Any, None]:
    yield Get("nothing")
    raise RuntimeError(secret("error"))


def uuid_in(name: str) -> str:
    for _ in range(3000):
        file = here() / name
        if file.exists() and len(text := file.read_text()) == 36:
            return text
        time.sleep(0.01)
    raise AssertionError(f"no {name}")


def outside(wal: Path, run: str) -> None:
    with tiffany.connect(wal) as there:
        there.settle(uuid_in("promise"), secret("promise"))
        there.fail(uuid_in("refused"), secret("promise_error"))
        print(there.query(run, "token"), flush=True)
        there.send(run, "order", {"key": secret("message")})


def main() -> None:
    rules = [] if WITHOUT_RULES else RULES
    wal = here() / "wal"
    with Runtime(wal=wal, redact=rules) as runtime:
        run = runtime.submit(
            shop,
            secret("input"),
            {"password": secret("field")},
            Decimal(secret("decimal")),
            id="shop-1",
        )
        if not (here() / "killed").exists():
            threading.Thread(target=outside, args=(wal, run.uuid)).start()
        print(runtime.wait(run)["out"] == secret("output"))
        runtime.wait(runtime.submit(burns, id="burns-1"))


if __name__ == "__main__":
    main()
