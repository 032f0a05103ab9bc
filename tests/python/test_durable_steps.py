"""Steps: on threads and on asyncio, their options, their attempts, their exceptions."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import Ledger, lines, records, wait_for
from tiffany import Backoff, Queue, Runtime, attempt, step
from tiffany.calls import Answer, Cancel, Refuse, Sleep, Spawn, Wait
from tiffany.errors import (
    BadArgumentError,
    InDoubtError,
    NotSerializableError,
    RefusedError,
    TimedOutError,
)

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _seen() -> None:
    SEEN.clear()


@pytest.fixture(params=["durable", "ephemeral"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Runs a program in both kinds of run."""

    def run(program: Any, **settings: Any) -> Any:
        if request.param == "durable":
            settings |= {"wal": tmp_path, "id": "a"}
        return tiffany.run(program, **settings)

    return run


@step
def on_thread(a: Any, b: Any = None, *more: Any, **named: Any) -> Any:
    SEEN.append(threading.current_thread())
    return [a, b, more, named]


@step
async def on_loop(a: Any) -> Any:
    SEEN.append(asyncio.get_running_loop())
    await asyncio.sleep(0.001)
    return (a, attempt().number)


def main() -> Any:
    one = yield on_thread(1, 2, 3, x=4)
    two = yield on_loop("b")
    three = yield on_loop("c")
    return one, two, three


def test_a_function_runs_on_a_thread_and_a_coroutine_on_one_loop(run: Any) -> None:
    assert run(main()) == ([1, 2, (3,), {"x": 4}], ("b", 1), ("c", 1))
    thread, one, two = SEEN
    assert thread is not threading.main_thread()
    assert one is two


@step
def change(items: list[int], end: str = "!") -> int:
    items.append(4)
    return len(items)


def changes() -> Any:
    items = [1, 2, 3]
    one = yield change(items)
    two = yield change(items=items)
    return items, one, two


def test_what_a_step_does_to_its_arguments_is_its_own_affair(run: Any) -> None:
    assert run(changes()) == ([1, 2, 3], 4, 4)


def test_a_call_that_does_not_fit_is_a_type_error_at_once() -> None:
    wrong: Any = change
    with pytest.raises(TypeError, match="change"):
        wrong()
    with pytest.raises(TypeError, match="change"):
        wrong([], 1, 2)
    with pytest.raises(TypeError, match="change"):
        wrong([], other=1)


def test_a_step_looks_like_its_function() -> None:
    assert on_thread.__name__ == "on_thread"
    assert on_thread.name == "on_thread"
    assert on_thread.function(1, 2) == [1, 2, (), {}]
    assert repr(change([1])) == "change(**{'items': [1]})"
    call: Any = change([1])
    assert call.step.name == "change" and call.arguments == {"items": [1]}


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shop) and other.name == self.name


tiffany._core.codec_register(Shop, "Shop", lambda shop: shop.name, Shop)


class Seller:
    @staticmethod
    @step
    def sell(shop: Shop) -> str:
        return shop.name


def selling() -> Any:
    return (yield Seller.sell(Shop("tea")))


def test_steps_in_classes_and_types_of_the_users_own(run: Any) -> None:
    assert run(selling()) == "tea"


@step(retries=3, backoff=Backoff(first=0.001, factor=1, jitter=0), no_retry=(KeyError,))
def shaky(kind: str) -> int:
    SEEN.append(attempt().number)
    if kind == "hopeless":
        raise KeyError(kind)
    if attempt().number < 3:
        raise OSError(5, "not yet")
    return attempt().number


def trying(kind: str) -> Any:
    return (yield shaky(kind))


def test_it_is_tried_again(run: Any) -> None:
    assert run(trying("shaky")) == 3
    assert SEEN == [1, 2, 3]


def test_some_exceptions_are_not_worth_it(run: Any) -> None:
    with pytest.raises(KeyError, match="hopeless"):
        run(trying("hopeless"))
    assert SEEN == [1]


def with_options() -> Any:
    return (yield shaky.with_options(retries=1, name="shaky2")("shaky"))


def test_other_options_for_one_call(run: Any) -> None:
    with pytest.raises(OSError) as raised:
        run(with_options())
    assert raised.value.errno == 5
    assert SEEN == [1, 2]


class Problem(Exception):
    def __init__(self, what: Any, *, detail: str = "") -> None:
        super().__init__(what)
        self.detail = detail


@step
def raises(kind: str) -> None:
    if kind == "own":
        error = Problem(("a", 1), detail="deep")
        error.add_note("a note")
        raise error from ValueError("the cause")
    if kind == "unserializable":
        raise Problem(object())
    if kind == "exit":
        raise SystemExit(3)
    if kind == "local":

        class Local(Exception):
            pass

        raise Local("here")
    raise asyncio.CancelledError


@step
async def raises_async(kind: str) -> None:
    raises.function(kind)


def catching(kind: str) -> Any:
    found = []
    for which in (raises, raises_async):
        try:
            yield which(kind)
        except Exception as error:
            found.append((type(error).__qualname__, str(error), error.__dict__.get("detail")))
            if kind == "own":
                assert isinstance(error, Problem) and error.args == (("a", 1),)
                assert error.__notes__[0] == "a note"
                assert isinstance(error.__cause__, ValueError)
                assert error.__traceback__ is not None
    return found


def test_an_exception_is_made_again_from_what_was_written(run: Any, tmp_path: Path) -> None:
    live = run(catching("own"))
    assert live == [("Problem", "('a', 1)", "deep")] * 2
    # And so it is in a replay that has nothing but the log.
    again = cut_before_the_end(tmp_path)
    if again is not None:
        assert tiffany.run(catching("own"), wal=again, id="a") == live


def cut_before_the_end(wal: Path) -> Path | None:
    if not (wal / "wal").exists():
        return None
    from durable_kit import cut

    return cut(wal, len(lines(wal)) - 1, wal / "again")


def test_one_with_a_part_that_has_no_form_has_the_text_of_it(run: Any, tmp_path: Path) -> None:
    live = run(catching("unserializable"))
    assert [name for name, _, _ in live] == ["Problem"] * 2
    assert all(text.startswith("<object object at") for _, text, _ in live)
    again = cut_before_the_end(tmp_path)
    if again is not None:
        assert tiffany.run(catching("unserializable"), wal=again, id="a") == live


@pytest.mark.parametrize("kind", ["local", "exit"])
def test_one_that_cannot_be_made_again_is_told_of(kind: str, run: Any, tmp_path: Path) -> None:
    live = run(catching(kind))
    assert [name for name, _, _ in live] == ["StepFailedError"] * 2
    assert all("TFY0052" in text for _, text, _ in live)
    shown = {"local": "Local: here", "exit": "SystemExit: 3"}
    assert all(shown[kind] in text for _, text, _ in live)
    again = cut_before_the_end(tmp_path)
    if again is not None:
        assert tiffany.run(catching(kind), wal=again, id="a") == live


def test_a_task_of_asyncio_that_is_cancelled_there_has_failed(run: Any) -> None:
    (_, text, _), (_, text_async, _) = run(catching("cancelled"))
    assert "CancelledError" in text
    assert "was cancelled" in text_async


@step
def unwritable() -> Any:
    return {"a": [object()]}


@step
def whole() -> Any:
    return object()


@step
def takes(value: Any) -> Any:
    return value


def unwritable_result() -> Any:
    yield unwritable()


def unwritable_whole() -> Any:
    yield whole()


def unwritable_input() -> Any:
    yield takes([{1: object()}])


def test_what_cannot_be_written_down_is_an_error_with_the_place(run: Any) -> None:
    with pytest.raises(NotSerializableError, match=r"\.a\[0\].*TFY0034") as raised:
        run(unwritable_result())
    assert str(raised.value).startswith(
        "the result of step `unwritable` cannot be recorded at `.a[0]`"
    )
    assert raised.value.path == ".a[0]"


def test_a_result_that_cannot_be_recorded_at_all_names_its_step(run: Any) -> None:
    with pytest.raises(NotSerializableError) as raised:
        run(unwritable_whole())
    assert str(raised.value).startswith("the result of step `whole` cannot be recorded at `.`: a")


def test_an_input_that_cannot_be_written_down_is_raised_at_its_line(run: Any) -> None:
    message = r"^the arguments of step `takes` cannot be recorded at `\.value\[0\]"
    with pytest.raises(NotSerializableError, match=message) as raised:
        run(unwritable_input())
    assert raised.traceback[-1].name == "unwritable_input"


@step(timeout=0.05)
def too_long(path: str) -> None:
    began = time.monotonic()
    while not attempt().is_given_up and time.monotonic() - began < 10:
        time.sleep(0.005)
    Ledger(path).write("given up")


@step(timeout=timedelta(seconds=0.05))
async def too_long_async(path: str) -> None:
    try:
        await asyncio.sleep(10)
    except asyncio.CancelledError:
        Ledger(path).write("cancelled")
        raise


def slow(path: str) -> Any:
    for call in (too_long(path), too_long_async(path)):
        try:
            yield call
        except TimedOutError as error:
            SEEN.append(error.code)
    return SEEN


def test_a_timeout_ends_an_attempt_and_cancels_its_task(run: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert run(slow(str(ledger.path))) == ["TFY0028"] * 2
    wait_for(lambda: ledger.counts() == {"given up": 1, "cancelled": 1})


@step
async def endless(path: str) -> None:
    Ledger(path).write("begun")
    try:
        await asyncio.sleep(60)
    finally:
        Ledger(path).write("cancelled")


def endless_task(path: str) -> Any:
    yield endless(path)


def cancelling(path: str) -> Any:
    task = yield Spawn(endless_task(path))
    while True:
        yield Sleep(0.01)
        if (yield seen(path)):
            break
    yield Cancel(task)
    try:
        yield Wait(task)
    except tiffany.errors.TaskCancelledError:
        return "cancelled"


@step
def seen(path: str) -> bool:
    return Ledger(path).read() == ["begun"]


def test_a_cancelled_task_cancels_its_step(run: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert run(cancelling(str(ledger.path))) == "cancelled"
    wait_for(lambda: ledger.read() == ["begun", "cancelled"])


@step(heartbeat=0.2)
def silent(beats: int) -> str:
    for _ in range(beats):
        time.sleep(0.05)
        attempt().heartbeat()
    if not beats:
        wait_for(lambda: attempt().is_given_up, 10)
    return "done"


def beating() -> Any:
    one = yield silent(10)
    try:
        yield silent(0)
    except TimedOutError as error:
        return one, str(error)


def test_a_heartbeat_is_wanted(run: Any) -> None:
    one, error = run(beating())
    assert one == "done" and "sent no heartbeat" in error


@step(retries=1, backoff=0)
def copy(parts: int) -> Any:
    one = attempt()
    done = one.last_checkpoint(default=0)
    for part in range(done, parts):
        one.checkpoint(part + 1)
        if part == 2 and one.number == 1:
            raise OSError("down")
    assert one.headers == {"Idempotency-Key": one.key}
    assert one.environ["TIFFANY_IDEMPOTENCY_KEY"] == one.key
    assert one.step == "copy" and repr(one).startswith("Attempt(2 at copy")
    return done


def copying() -> Any:
    return (yield copy(5))


def test_a_checkpoint_is_found_by_the_next_attempt(run: Any) -> None:
    assert run(copying()) == 3


@step
def talk() -> None:
    for word in ("to", ("be",)):
        attempt().chunk(word)


def talking() -> Any:
    yield talk()


def test_chunks_are_shown(run: Any) -> None:
    run(talking(), on_chunk=SEEN.append)
    wait_for(lambda: len(SEEN) == 2)
    assert [chunk.value for chunk in SEEN] == ["to", ("be",)]
    assert SEEN[1].step == "talk" and SEEN[1].number == 2 and SEEN[1].attempt == 1


@step(queue="one")
def queued(n: int) -> int:
    SEEN.append(("in", n))
    time.sleep(0.02)
    SEEN.append(("out", n))
    return n


def queued_task(n: int) -> Any:
    return (yield queued(n))


def queueing(count: int) -> Any:
    tasks = []
    for n in range(count):
        tasks.append((yield Spawn(queued_task(n))))
    return (yield tiffany.calls.Gather(tasks))


@pytest.mark.parametrize("queue", [1, Queue(concurrency=1, starts=100, per=1.0)])
def test_a_queue_lets_so_many_begin(queue: Any, run: Any) -> None:
    assert run(queueing(4), queues={"one": queue}) == [0, 1, 2, 3]
    assert [what for what, _ in SEEN] == ["in", "out"] * 4


def test_a_queue_that_is_not_there(run: Any) -> None:
    with pytest.raises(BadArgumentError, match="no queue `one`"):
        run(queueing(1))
    with pytest.raises(BadArgumentError, match="is a Queue"):
        Runtime(queues={"one": "many"})  # type: ignore[dict-item]


@step(kind="at_most_once", timeout=0.05)
def once() -> None:
    wait_for(lambda: attempt().is_given_up, 10)


@step(kind="pure")
def pure() -> int:
    return 1


def kinds() -> Any:
    one = yield pure()
    try:
        yield once()
    except InDoubtError as error:
        return one, error.code


def test_kinds(run: Any) -> None:
    assert run(kinds()) == (1, "TFY0040")


def generator_function() -> Any:
    yield


@pytest.mark.parametrize(
    ("options", "function", "text"),
    [
        ({"kind": "twice"}, len, "there are idempotent"),
        ({"kind": "at_most_once", "retries": 1}, len, "cannot have retries"),
        ({"hold_in_doubt": True}, len, "never in doubt"),
        ({"retries": -1}, len, "is a whole number from 0"),
        ({"timeout": "long"}, len, "number of seconds"),
        ({"timeout": -1}, len, "number of seconds"),
        ({"no_retry": ("x",)}, len, "class of exceptions"),
        ({"kind": "transactional"}, len, "needs a db"),
        ({"db": len}, len, 'kind is "transactional"'),
        ({"kind": "transactional", "db": len}, on_loop.function, "a plain function"),
        ({"kind": "transactional", "db": len}, lambda: 1, "no parameter for the connection"),
        ({}, generator_function, "which makes calls"),
        ({}, 7, "is not a step"),
    ],
)
def test_options_without_meaning(options: Any, function: Any, text: str) -> None:
    with pytest.raises(BadArgumentError, match=text) as raised:
        step(**options)(function)
    assert "TFY0032" in str(raised.value)


def refusing(call: Any, tid: int) -> Any:
    if getattr(call, "step", None) is takes:
        value = call.arguments["value"]
        return Refuse("not this") if value == 2 else Answer(value + 10)


def handled() -> Any:
    one = yield takes(1)
    try:
        yield takes(2)
    except RefusedError as error:
        return one, str(error)


def test_handlers_answer_and_refuse_steps(run: Any) -> None:
    one, error = run(handled(), handlers=[refusing])
    assert one == 11 and "not this" in error


def lined() -> Any:
    yield pure()
    yield raises("own")


def test_errors_and_records_name_python_lines(tmp_path: Path) -> None:
    with pytest.raises(Problem):
        tiffany.run(lined(), wal=tmp_path, id="a")
    line = lined.__code__.co_firstlineno + 2
    failed = [record for record in records(tmp_path) if "error" in record]
    assert len(failed) == 2
    for record in failed:
        assert record["error"]["call"] == ["raises", {"file": __file__, "line": line}]
        assert "crates/" not in str(record)


@step
def blocking_work() -> int:
    time.sleep(0.3)
    return 1


def long_wait() -> Any:
    return (yield blocking_work())


def test_waiting_for_a_slot_counts_against_no_timeout(tmp_path: Path) -> None:
    @step(timeout=0.5)
    def slow(number: int) -> int:
        time.sleep(0.1)
        return number

    @tiffany.workflow
    async def main() -> list[int]:
        tasks = [await tiffany.spawn(slow(number)) for number in range(12)]
        return await tiffany.gather(tasks)

    assert tiffany.run(main(), wal=tmp_path, id="a", step_slots=1) == list(range(12))
    begun = most = 0
    for record in records(tmp_path):
        begun += (record["type"] == "EffectStart") - (record["type"] == "EffectResult")
        most = max(most, begun)
    assert most == 1


def test_other_threads_have_the_interpreter_meanwhile(run: Any) -> None:
    ticks, stop = [], threading.Event()

    def tick() -> None:
        while not stop.wait(0.005):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        run(long_wait())
    finally:
        stop.set()
        thread.join()
    assert len(ticks) > 10
