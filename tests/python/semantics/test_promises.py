"""Promises: settled inside, or from outside."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany import complete_by_uuid
from tiffany.calls import (
    CompletePromise,
    CreateExternalPromise,
    CreatePromise,
    ExternalPromise,
    FailPromise,
    Future,
    Gather,
    Promise,
    Race,
    Spawn,
    Wait,
    Yield,
    fail_by_uuid,
)


class Boom(Exception):
    pass


@both
def test_settling_twice_is_an_error() -> None:
    """ "settling one twice is an error the caller can catch, and the first value stays.": by value or by exception, in either order."""
    error = Boom("first")

    async def main() -> tuple[list[str], Any, Any]:
        said: list[str] = []
        completed, failed = await CreatePromise(), await CreatePromise()
        await CompletePromise(completed, "first")
        await FailPromise(failed, error)
        for promise in (completed, failed):
            for call in (promise.complete("second"), promise.fail(ValueError("second"))):
                try:
                    await call
                except tiffany.errors.AlreadySettledError as caught:
                    said.append(caught.code)
        try:
            await Wait(failed.future)
        except Boom as caught:
            return said, await Wait(completed.future), caught
        raise AssertionError

    said, value, raised = tiffany.run(main())
    assert said == ["TFY0009"] * 4
    assert value == "first"
    assert raised is error


@both
def test_it_is_waited_for_gathered_and_raced() -> None:
    """ "Waitable: what Wait, Gather and Race take: a Task or a Future (read side of a Promise or ExternalPromise)": who waits before and
    who waits after it was settled get the same."""

    async def waiter(future: Future[str]) -> tuple[str, str, str]:
        raced = await Race(future)
        return await Wait(future), (await Gather(future))[0], raced.value

    async def main() -> list[Any]:
        promise: Promise[str] = await CreatePromise()
        early = await Spawn(waiter(promise.future))
        await Yield()
        await promise.complete("value")
        late = await Spawn(waiter(promise.future))
        return await Gather([early, late])

    assert tiffany.run(main()) == [("value",) * 3] * 2


@both
def test_a_promise_that_nobody_can_settle_any_more() -> None:
    """ "else blocks.": but not on what cannot come; a promise whose write side is gone is an error in who waits."""

    async def main() -> str:
        promise = await CreatePromise()
        future = promise.future
        del promise
        try:
            await Wait(future)
        except tiffany.errors.AbandonedError as error:
            return error.code
        raise AssertionError

    assert tiffany.run(main()) == "TFY0026"


@both
def test_external_from_any_thread() -> None:
    """ "settled from any thread" """

    async def main() -> tuple[str, str, bool]:
        first, second = await CreateExternalPromise(), await CreateExternalPromise()
        answers: list[bool] = []
        threads = [
            threading.Thread(target=lambda: answers.append(first.complete("value"))),
            threading.Thread(target=lambda: answers.append(second.fail(Boom("elsewhere")))),
        ]
        for thread in threads:
            thread.start()
        value = await Wait(first.future)
        said = ""
        try:
            await Wait(second.future)
        except Boom as error:
            said = str(error)
        for thread in threads:
            thread.join()
        return value, said, all(answers)

    assert tiffany.run(main()) == ("value", "elsewhere", True)


@both
def test_external_by_its_uuid() -> None:
    """ "by its UUID": as text or as `uuid.UUID`, from any thread."""

    async def main() -> tuple[Any, str]:
        first, second = await CreateExternalPromise(), await CreateExternalPromise()

        def settle() -> None:
            complete_by_uuid(first.uuid, {"any": "object"})
            fail_by_uuid(uuid.UUID(second.uuid), Boom("elsewhere"))

        threading.Thread(target=settle).start()
        value = await Wait(first.future)
        try:
            await Wait(second.future)
        except Boom as error:
            return value, str(error)
        raise AssertionError

    assert tiffany.run(main()) == ({"any": "object"}, "elsewhere")


@both
def test_uuids_are_random() -> None:
    """ "(random" """

    async def main() -> set[str]:
        uuids: set[str] = set()
        for _ in range(100):
            uuids.add((await CreateExternalPromise()).uuid)
        return uuids

    uuids = tiffany.run(main()) | tiffany.run(main())
    assert len(uuids) == 200
    assert all(uuid.UUID(one).version == 4 for one in uuids)


@both
def test_the_first_answer_wins() -> None:
    """ "the first answer wins, later ones are ignored and counted." Who settles is told whether it was the first."""

    async def main() -> tuple[list[bool], str]:
        promise: ExternalPromise[str] = await CreateExternalPromise()
        answers = [
            promise.complete("first"),
            promise.complete("second"),
            promise.fail(Boom()),
            complete_by_uuid(promise.uuid, "third"),
            fail_by_uuid(promise.uuid, Boom()),
        ]
        return answers, await Wait(promise.future)

    assert tiffany.run(main()) == ([True, False, False, False, False], "first")


@pytest.mark.parametrize("name", ["", "no uuid", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_uuid_is_an_error(name: str) -> None:
    """ "by its UUID": one that nobody has is an error."""
    with pytest.raises(tiffany.errors.UnknownPromiseError, match="TFY0010"):
        complete_by_uuid(name, 1)


def _failing(promise: Promise[Any]) -> Callable[[Any], Any]:
    return lambda error: FailPromise(promise, error)


@both
def test_only_exceptions_can_be_raised() -> None:
    """ "a failed or cancelled winner raises": so a promise fails with an exception only."""

    async def main() -> int:
        promise, external = await CreatePromise(), await CreateExternalPromise()
        refused = 0
        fails: list[Any] = [promise.fail, external.fail]
        fails.append(_failing(promise))
        for fail in fails:
            for given in ("text", None, ValueError):
                try:
                    fail(given)
                except tiffany.errors.BadArgumentError:
                    refused += 1
        await promise.complete()
        return refused

    assert tiffany.run(main()) == 9


@both
def test_only_a_promise_can_be_settled() -> None:
    """ "ExternalPromise: settled from any thread": by its own methods; `CompletePromise` says so."""

    async def main() -> list[str]:
        said: list[str] = []
        given: list[Any] = [await CreateExternalPromise(), (await CreatePromise()).future, 3]
        for one in given:
            try:
                await CompletePromise(one, 1)
            except tiffany.errors.BadArgumentError as error:
                said.append(str(error))
        return said

    said = tiffany.run(main())
    assert len(said) == 3
    assert "`complete` and `fail`" in said[0]
