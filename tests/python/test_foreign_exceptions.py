"""Exceptions of other packages, raised in a step: a workflow catches them by their class, in the process that ran the step and in one
that has only its log.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pydantic
import pytest
import tiffany
from durable_kit import cut, finish, python, records, run_files, types, wait_for
from tiffany import step, workflow
from tiffany._core import decode_exception, encode_exception
from tiffany.durable import Runtime
from tiffany.errors import NotSerializableError, StepFailedError


class Order(pydantic.BaseModel):
    item: str
    count: int

    @pydantic.field_validator("count")
    @classmethod
    def some(cls, count: int) -> int:
        if count == 0:
            raise ValueError("nothing was ordered")
        return count


class Locked(Exception):
    """An exception of a package whose objects have no form in a log."""

    def __init__(self, name: str, lock: Any) -> None:
        super().__init__(name)
        self.lock = lock


@step(retries=0)
def get(status: int) -> str:
    request = httpx.Request("GET", "http://shop/tea", headers={"authorization": "Bearer secret"})
    headers = {"content-type": "application/json", "set-cookie": "session=secret"}
    response = httpx.Response(
        status, request=request, headers=headers, json={"detail": "out of tea"}
    )
    response.raise_for_status()
    return response.text


@step(retries=0)
def connect() -> str:
    raise httpx.ConnectTimeout("no answer", request=httpx.Request("PUT", "http://shop/tea"))


@step(retries=0)
def validate(given: dict[str, Any]) -> Order:
    return Order.model_validate(given)


@step(retries=0)
def lock() -> None:
    raise Locked("stock", threading.Lock())


@step(retries=0)
def local() -> None:
    class Inner(Exception):
        pass

    raise Inner("why", 7)


@step(name="inventory", retries=0)
def unrecordable() -> Any:
    return {"shelves": [{"door": threading.Lock()}]}


async def shop() -> list[Any]:
    seen: list[Any] = []
    try:
        await get(404)
    except httpx.HTTPStatusError as error:
        response = error.response
        seen += [response.status_code, response.json(), dict(response.headers)]
        seen += [str(error.request.url), error.request.method, dict(error.request.headers)]
    try:
        await connect()
    except httpx.TimeoutException as error:
        seen += [type(error).__name__, str(error), error.request.method]
    for given in ({"item": "tea", "count": "many"}, {"item": 1, "count": 0}):
        try:
            await validate(given)
        except pydantic.ValidationError as error:
            seen += [error.title, error.error_count(), str(error)]
            seen += [[(list(line["loc"]), line["type"]) for line in error.errors()]]
    try:
        await lock()
    except Locked as error:
        seen += [error.args, str(error.lock).startswith("<unlocked")]
        try:
            error.lock.acquire()
        except AttributeError as why:
            seen.append(str(why))
    try:
        await local()
    except StepFailedError as error:
        assert error.original_class is not None
        assert error.traceback is not None
        seen += [error.original_class.rpartition(".")[2], error.original_args]
        seen.append([line for line in error.traceback.splitlines() if "raise" in line])
    try:
        await unrecordable()
    except NotSerializableError as error:
        seen += [error.path, "`inventory`" in str(error)]
    return seen


SEEN: list[Any] = [
    404,
    {"detail": "out of tea"},
    {"content-type": "application/json", "content-length": "23"},
    "http://shop/tea",
    "GET",
    {"host": "shop"},
    "ConnectTimeout",
    "no answer",
    "PUT",
    "Order",
    1,
]


def test_a_workflow_catches_them_by_their_class(tmp_path: Path) -> None:
    live = tiffany.run(shop(), wal=tmp_path / "live", id="shop")
    assert live[: len(SEEN)] == SEEN
    assert "Input should be a valid integer, unable to parse string" in live[len(SEEN)]
    assert [(["count"], "int_parsing")] in live
    assert [(["item"], "string_type"), (["count"], "value_error")] in live
    assert live[-8:-6] == [("stock",), True]
    assert "`acquire` of this `_thread:lock` was not recorded" in live[-6]
    assert live[-5:] == [
        "Inner",
        ("why", 7),
        ['    raise Inner("why", 7)'],
        ".shelves[0].door",
        True,
    ]

    # Cut after every record, as a crash leaves it: the rest is done again, and is the same.
    count = len(records(tmp_path / "live"))
    results = types(tmp_path / "live").count("EffectResult")
    assert results == 7
    for lines in range(2, count, 3):
        directory = cut(tmp_path / "live", lines, tmp_path / f"cut-{lines}")
        assert tiffany.run(shop(), wal=directory, id="shop") == live

    # No secret of the request or the response is in the log.
    assert "secret" not in "".join(map(json.dumps, records(tmp_path / "live")))


LATER = """
import sys
import httpx
import tiffany
from tiffany import receive_message, step

@step(retries=0)
def get():
    print("get", flush=True)
    request = httpx.Request("GET", "http://shop")
    httpx.Response(503, request=request).raise_for_status()

async def main():
    try:
        await get()
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
    print("caught", status, flush=True)
    return status + await receive_message("more")

with tiffany.Runtime(wal=sys.argv[1]) as runtime:
    run = runtime.submit(main(), id="run")
    if len(sys.argv) > 2:
        runtime.send(run, "more", 1)
    print(runtime.wait(run))
"""


def test_a_later_process_catches_them_too(tmp_path: Path) -> None:
    program = tmp_path / "later.py"
    program.write_text(LATER)
    first = python(program, tmp_path / "wal")
    assert first.stdout is not None
    assert [first.stdout.readline() for _ in range(2)] == ["get\n", "caught 503\n"]
    wait_for(lambda: any('"EffectResult"' in f.read_text() for f in run_files(tmp_path / "wal")))
    first.kill()
    first.communicate()
    code, out, err = finish(python(program, tmp_path / "wal", "send"))
    assert (code, out) == (0, "caught 503\n504\n"), err


@workflow(name="foreign failing")
async def failing() -> None:
    await get(500)


def test_the_outcome_of_a_run_is_such_an_exception(tmp_path: Path) -> None:
    for _ in range(2):
        with Runtime(wal=tmp_path) as runtime:
            run = runtime.submit(failing, id="failing")
            with pytest.raises(httpx.HTTPStatusError) as caught:
                runtime.wait(run)
            assert caught.value.response.status_code == 500


def test_only_a_class_method_makes_an_exception() -> None:
    text = encode_exception(pydantic_error())
    assert '"made_by":"from_exception_data"' in text
    back = decode_exception(text)
    assert isinstance(back, pydantic.ValidationError)
    for other in ("__init__", "mro", "errors", "nothing", "with_traceback"):
        there = decode_exception(text.replace("from_exception_data", other))
        assert not isinstance(there, pydantic.ValidationError), other


def pydantic_error() -> pydantic.ValidationError:
    with pytest.raises(pydantic.ValidationError) as caught:
        Order.model_validate({"item": object(), "count": 0})
    return caught.value


def again(error: httpx.HTTPStatusError) -> httpx.Response:
    """The response of an error that went through the log."""
    back = decode_exception(encode_exception(error))
    assert isinstance(back, httpx.HTTPStatusError)
    return back.response


def test_long_content_is_cut_and_a_stream_has_none() -> None:
    request = httpx.Request("GET", "http://shop")
    long = httpx.Response(500, request=request, content=b"x" * 1_000_000)
    error = httpx.HTTPStatusError("long", request=request, response=long)
    assert len(again(error).content) == 64 * 1024
    stream = httpx.Response(500, request=request, stream=httpx.ByteStream(b"unread"))
    error = httpx.HTTPStatusError("stream", request=request, response=stream)
    assert again(error).status_code == 500
    packed = httpx.Response(500, headers={"content-encoding": "gzip"}, request=request)
    packed._content = b"unpacked"
    error = httpx.HTTPStatusError("packed", request=request, response=packed)
    assert again(error).content == b"unpacked"
