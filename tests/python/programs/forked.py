"""A child that was forked from a task's process uses what belongs to its parent. Every use is an error with a code; the parent goes on."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator
from typing import Any

import tiffany
from tiffany import complete_by_uuid
from tiffany.calls import Aio, Blocking, CreateExternalPromise, InThread, Sleep, Wait

CONTEXT = multiprocessing.get_context("fork")


def said(act: Callable[[], object]) -> str:
    try:
        return repr(act())
    except tiffany.TiffanyError as error:
        return error.code


async def nothing() -> str:
    return "nothing"


def one(call: tiffany.calls.SystemCall[Any]) -> Generator[Any, Any, Any]:
    return (yield call)


def child(
    promise: tiffany.calls.ExternalPromise[Any], runtime: tiffany.Runtime, answers: Any
) -> None:
    def unused() -> object:
        program = one(Sleep(0))
        try:
            return runtime.run(program)
        finally:
            program.close()

    answers.put(
        [
            said(lambda: promise.complete("from the child")),
            said(lambda: promise.fail(ValueError("from the child"))),
            said(lambda: complete_by_uuid(promise.uuid, "from the child")),
            said(unused),
            # What is its own works.
            said(lambda: tiffany.run(one(Aio(nothing())))),
            said(lambda: tiffany.run(one(InThread(os.getpid))) == os.getpid()),
        ]
    )


def in_child(promise: tiffany.calls.ExternalPromise[Any], runtime: tiffany.Runtime) -> list[str]:
    answers = CONTEXT.Queue()
    process = CONTEXT.Process(target=child, args=(promise, runtime, answers))
    process.start()
    seen: list[str] = answers.get(timeout=60)
    process.join(60)
    return seen


def main(runtime: tiffany.Runtime) -> Generator[Any, Any, Any]:
    # There are a loop of asyncio and a pool already when the process is forked.
    yield Aio(nothing())
    yield InThread(os.getpid)
    promise = yield CreateExternalPromise()
    seen = yield Blocking(in_child, promise, runtime)
    promise.complete("from the parent")
    return seen, (yield Wait(promise.future)), (yield Aio(nothing()))


if __name__ == "__main__":
    with tiffany.Runtime() as runtime:
        print(runtime.run(main(runtime)))
