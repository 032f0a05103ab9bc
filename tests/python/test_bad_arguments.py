"""Bad arguments: each is refused at once, by an exception that has a code, names the argument and says what it may be."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiffany
import tiffany.client
from tiffany import Backoff, Queue, Runtime, TiffanyError, net, step, workflow
from tiffany.errors import BadArgumentError
from tiffany.testing import Scheduler

core: Any = SimpleNamespace(**{**vars(tiffany.durable), **vars(tiffany.calls), **vars(tiffany)})
HALF = "\ud800"
"""Half of a surrogate pair."""


def program() -> Generator[Any, Any, None]:
    yield


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("no")


def run(**settings: Any) -> Any:
    return tiffany.run(program(), **settings)


def made(**options: Any) -> Any:
    return step(**options)(lambda: 1)


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: core.KillTask(-1), "`tid` is a whole number from 0 to 18446744073709551615, not -1"),
    (lambda: core.WaitTask(2**70), "`tid` is a whole number from 0 to 18446744073709551615"),
    (lambda: core.WaitTask("1"), "`tid` is a whole number from 0 to 18446744073709551615, not '1'"),
    (lambda: core.WaitTask(10**5000), "not this `int`"),
    (lambda: core.WaitTask(Unshowable()), "not this `Unshowable`"),
    (lambda: core.Spawn(program(), priority=999), "`priority` is a whole number from 0 to 255"),
    (lambda: core.spawn(program(), priority=-1), "`priority` is a whole number from 0 to 255"),
    (lambda: core.Spawn(program(), name=3), "`name` is a text, not 3"),
    (
        lambda: core.spawn(program(), name=HALF),
        r"`name` is a text without surrogates.*not '\\ud800'",
    ),
    (lambda: core.Spawn(program(), group=3), "`group` is a Group, not 3"),
    (lambda: core.Spawn(program(), 3), "`handlers` is a list, not 3"),
    (lambda: core.Charge(-1), "`cost` is a whole number"),
    (lambda: core.Charge(1.5), "`cost` is a whole number from 0 to 18446744073709551615, not 1.5"),
    (lambda: core.CreateChannel(-1), "`capacity` is a whole number"),
    (lambda: core.CreateSemaphore("two"), "`permits` is a whole number"),
    (lambda: core.Acquire(3), "`semaphore` is a Lock, not 3"),
    (lambda: core.Send(3, "x"), "`channel` is a Channel, not 3"),
    (lambda: core.Receive(None), "`channel` is a Channel, not None"),
    (lambda: core.JoinGroup(3), "`group` is a Group, not 3"),
    (lambda: core.Get(3), "`key` is a text, not 3"),
    (lambda: core.Put(HALF, 1), "`key` is a text without surrogates"),
    (lambda: core.Ask(b"key"), "`key` is a text, not b'key'"),
    (lambda: core.Cancel(3), "`int` cannot be cancelled; a Task can"),
    (lambda: core.Lazy(3), "`find` is something that can be called, not 3"),
    (lambda: core.Blocking(3), "`function` is something that can be called, not 3"),
    (lambda: core.on_question("name", 3), "`answer` is something that can be called, not 3"),
    (lambda: core.Gather(3), "`int` cannot be waited for"),
    (lambda: core.SleepUntil("noon"), "`str` is not a moment"),
    (lambda: core.FailPromise(3, 3), "`int` is not a Promise"),
    (lambda: core.Call(3), "`int` is not a program"),
    (lambda: core.Refuse(3), "`why` is a text, not 3"),
    (lambda: core.ReceiveMessage(3), "`name` is a text, not 3"),
    (lambda: core.Patched(HALF), "`id` is a text without surrogates"),
    (lambda: core.SendMessage("run", 3, None), "`name` is a text, not 3"),
    (lambda: core.SendMessage(HALF, "name", None), "is not a run"),
    (lambda: core.on_question(3, print), "`name` is a text, not 3"),
    (lambda: core.complete_by_uuid("x", 1, wal=3), "`wal` is a path, not 3"),
    (lambda: vars(tiffany.client)["connect"](3), "`wal` is a path, not 3"),
    (lambda: net.connect("localhost", 70_000), "`port` is a whole number from 0 to 65535"),
    (lambda: core.Sleep(-1), "-1 seconds is not a duration: it is negative"),
    (lambda: core.sleep(float("nan")), "NaN seconds is not a duration: it is not a number"),
    (lambda: core.sleep(1e300), "it is longer than any clock can measure"),
    (lambda: core.sleep("1"), "`str` is not a duration; pass a number of seconds or a timedelta"),
    (lambda: core.Timeout(-1, program()), "-1 seconds is not a duration"),
]


@pytest.mark.parametrize(("make", "says"), CALLS, ids=[says[:40] for _, says in CALLS])
def test_calls(make: Callable[[], Any], says: str) -> None:
    """What no call can be given is refused where it is made."""
    with pytest.raises(BadArgumentError, match=says) as raised:
        make()
    assert f"[{raised.value.code}]; " in str(raised.value)


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"env": {1: 2}}, "a key of `env` is a text, not 1"),
    ({"env": 3}, "`env` is a dictionary, not 3"),
    ({"name": HALF}, "`name` is a text without surrogates"),
    ({"name": 3}, "`name` is a text, not 3"),
    ({"end": 3}, "`end` is a text, not 3"),
    ({"end": "never"}, 'a run ends with "all" of its tasks or with its "root", not with "never"'),
    ({"policy": None}, "`policy` is a text, not None"),
    ({"threads": -1}, "`threads` is a whole number"),
    ({"threads": 1.5}, "`threads` is a whole number from 0 to 18446744073709551615, not 1.5"),
    ({"threads": True}, "`threads` is a whole number from 0 to 18446744073709551615, not True"),
    ({"step_slots": "many"}, "`step_slots` is a whole number from 1 to 1000000, not 'many'"),
    ({"step_slots": 0}, "`step_slots` is a whole number from 1 to 1000000, not 0"),
    ({"step_slots": -1}, "`step_slots` is a whole number from 1 to 1000000, not -1"),
    ({"step_slots": 2**70}, "`step_slots` is a whole number from 1 to 1000000, not 1180591620"),
    ({"step_slots": 10**9}, "`step_slots` is a whole number from 1 to 1000000, not 1000000000"),
    ({"step_slots": True}, "`step_slots` is a whole number from 1 to 1000000, not True"),
    ({"run_limits": {"tasks": False}}, "`tasks` is a whole number from 0 to .*, not False"),
    ({"run_limits": {"calls": True}}, "`calls` is a whole number from 0 to .*, not True"),
    ({"run_limits": {"turn": True}}, "`bool` is not a duration"),
    ({"run_limits": {"turn": -1}}, "-1 seconds is not a duration"),
    ({"run_limits": {"speed": 1}}, "there is no run limit `speed`"),
    ({"clock": 3}, "`clock` is a text, not 3"),
    ({"limits": {"max_tasks": -1}}, "`max_tasks` is a whole number"),
    ({"limits": {"max_calls": 2**64}}, "`max_calls` is a whole number"),
    ({"limits": {"max_cost": "much"}}, "`max_cost` is a whole number"),
    ({"limits": {"max_time": -1}}, "-1 seconds is not a duration"),
    ({"limits": {3: 3}}, "a key of `limits` is a text, not 3"),
    ({"limits": {"tasks": 3}}, "there is no limit `tasks`"),
    ({"limits": 3}, "`limits` is a dictionary, not 3"),
    ({"cancel_grace": -1}, "-1 seconds is not a duration"),
    ({"cancel_grace": "long"}, "`str` is not a duration"),
    ({"handlers": 3}, "`handlers` is a list, not 3"),
    ({"handlers": [3]}, "`int` is not a handler"),
    ({"queues": 3}, "`queues` is a dictionary, not 3"),
    ({"queues": {1: 2}}, "a key of `queues` is a text, not 1"),
    ({"queues": {"mail": "two"}}, "the queue 'mail' is a Queue, or how many"),
    ({"queues": {"mail": 0}}, "`concurrency` of a Queue is a whole number from 1"),
    ({"on_chunk": 3}, "`on_chunk` is a function"),
    ({"record": "all"}, 'a run records "every" call'),
    ({"workflows": 3}, "`workflows` is a list, not 3"),
    ({"workflows": [print]}, "print is not a workflow"),
    ({"wal": 3, "id": "x"}, "`wal` is a path, not 3"),
    ({"wal": "somewhere"}, "a durable run has both a log and an id"),
    ({"limit": {}}, r"tiffany.run\(\) takes no `limit` \[TFY0032\]; did you mean `limits`\?"),
    ({"colour": 3}, r"tiffany.run\(\) takes no `colour` \[TFY0032\]; it takes program, id, tags"),
]


@pytest.mark.parametrize(
    ("settings", "says"), SETTINGS, ids=[str(given)[:40] for given, _ in SETTINGS]
)
def test_settings(settings: dict[str, Any], says: str, tmp_path: Path) -> None:
    """What a run cannot be told is refused before anything is done."""
    with pytest.raises(BadArgumentError, match=says) as raised:
        run(**settings)
    assert f"[{raised.value.code}]; " in str(raised.value)


STEPS: list[tuple[dict[str, Any], str]] = [
    ({"retry": 3}, r"@step takes no `retry` \[TFY0032\]; did you mean `retries`\?"),
    ({"bogus": 1}, r"@step takes no `bogus` \[TFY0032\]; it takes name, retries"),
    ({"queue": 3}, "`queue` of a step is a text, not 3"),
    ({"queue": HALF}, "`queue` is a text without surrogates"),
    ({"name": 3}, "`name` of a step is a text, not 3"),
    ({"name": HALF}, "`name` is a text without surrogates"),
    ({"retries": -1}, "`retries` of the step `<lambda>` is a whole number from 0"),
    ({"retries": 2**70}, "`retries` of the step `<lambda>` is a whole number from 0"),
    ({"retries": "often"}, "`retries` of the step `<lambda>` is a whole number from 0"),
    ({"timeout": -1}, "`timeout` of a step is a number of seconds from 0 on"),
    ({"heartbeat": "often"}, "`heartbeat` of a step is a number of seconds from 0 on"),
    ({"backoff": -1}, "`backoff` of a step is a number of seconds from 0 on"),
    ({"hold_in_doubt": "yes"}, "`hold_in_doubt` of a step is True or False, not 'yes'"),
    ({"no_retry": 3}, "no_retry of the step `<lambda>` is a class of exceptions"),
    ({"kind": "safe"}, "of the kind 'safe'; there are idempotent"),
]


@pytest.mark.parametrize(("options", "says"), STEPS, ids=[str(given)[:40] for given, _ in STEPS])
def test_steps(options: dict[str, Any], says: str) -> None:
    """What a step cannot have is refused at the decorator, and by `with_options`."""
    with pytest.raises(BadArgumentError, match=says) as raised:
        made(**options)
    assert "[TFY0032]; " in str(raised.value)
    with pytest.raises(BadArgumentError, match=says.replace("<lambda>", "plain")):
        core_step(plain).with_options(**options)


def plain() -> int:
    return 1


OTHERS: list[tuple[Callable[[], Any], str]] = [
    (lambda: core_runtime(wall="wal"), r"tiffany.Runtime\(\) takes no `wall`.*mean `wal`\?"),
    (lambda: core_runtime(bogus=1), r"tiffany.Runtime\(\) takes no `bogus`.*; it takes wal,"),
    (lambda: asyncio.run(core_arun(program(), limit=3)), r"arun\(\) takes no `limit`.*`limits`\?"),
    (lambda: core_scheduler(program(), limit=3), "Scheduler takes no `limit`.*mean `limits`"),
    (lambda: core_workflow(named="x"), "@workflow takes no `named`.*mean `name`"),
    (lambda: core_workflow(name=3)(program), "`name` of a workflow is a text, not 3"),
    (lambda: core_workflow(name="")(program), "`name` of a workflow is a text, not ''"),
    (lambda: Queue(concurrency=-1), "`concurrency` of a Queue is a whole number from 1"),
    (lambda: Queue(starts=0), "`starts` of a Queue is a whole number from 1"),
    (lambda: Queue(starts=3, per=0), "`per` of a Queue is more than 0 seconds"),
    (lambda: Backoff(first=-1), "`first` of a Backoff is a number of seconds from 0 on"),
    (lambda: Backoff(factor=-1), "`factor` of a Backoff is 0 or more, not -1"),
    (lambda: Backoff(jitter=2), "`jitter` of a Backoff is a fraction from 0 to 1, not 2"),
    (lambda: Backoff(max=float("nan")), "`max` of a Backoff is a number of seconds from 0 on"),
]
core_step: Any = step
core_runtime: Any = Runtime
core_arun: Any = tiffany.arun
core_workflow: Any = workflow
core_scheduler: Any = Scheduler


@pytest.mark.parametrize(("make", "says"), OTHERS, ids=[says[:40] for _, says in OTHERS])
def test_others(make: Callable[[], Any], says: str) -> None:
    """Wherever something is given by a name, one that is nearly right is guessed."""
    with pytest.raises(BadArgumentError, match=says) as raised:
        make()
    assert "[TFY0032]; " in str(raised.value)


RUNS: list[tuple[Callable[[Runtime], Any], str]] = [
    (lambda runtime: runtime.run(program(), id=HALF), "`id` is a text without surrogates"),
    (lambda runtime: runtime.run(program(), id=core_id(3)), "the id of a run is a text, not 3"),
    (lambda runtime: runtime.submit(HALF, id="x"), "`function` is a text without surrogates"),
    (lambda runtime: runtime.send("x", core_id(3), 1), "`name` is a text, not 3"),
    (lambda runtime: runtime.query("x", core_id(3)), "`name` is a text, not 3"),
    (lambda runtime: runtime.decide(core_id(3), again=True), "`key` is a text, not 3"),
    (lambda runtime: runtime.decide("x", failed=core_id(3)), "`failed` is a text, not 3"),
    (lambda runtime: runtime.decide("x"), "a step in doubt needs exactly one decision"),
    (lambda runtime: runtime.wait(core_id(3)), '"3" is not a run; give a Run'),
    (lambda runtime: runtime.wait(HALF), "is not a run; give a Run"),
    (lambda runtime: runtime.handle.submit("x", id=core_id(3)), "`id` is a text, not 3"),
    (lambda runtime: runtime.handle.send("x", core_id(3), 1), "`name` is a text, not 3"),
]


def core_id(given: Any) -> Any:
    return given


@pytest.mark.parametrize(("use", "says"), RUNS, ids=[says[:40] for _, says in RUNS])
def test_durable_runs(use: Callable[[Runtime], Any], says: str, tmp_path: Path) -> None:
    """What a durable run cannot be called or told."""
    with Runtime(wal=tmp_path, workflows=[program]) as runtime:
        with pytest.raises(BadArgumentError, match=says) as raised:
            use(runtime)
        assert "[TFY0032]; " in str(raised.value)


async def coroutine() -> None:
    pass


def on_another_thread(act: Callable[[], Any]) -> None:
    raised: list[BaseException] = []

    def caught() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=caught)
    thread.start()
    thread.join()
    raise raised[0]


async def nested() -> None:
    tiffany.run(coroutine())


def used_elsewhere() -> None:
    with Runtime() as runtime:
        on_another_thread(lambda: runtime.run(coroutine()))


def closed() -> None:
    runtime = Runtime()
    runtime.close()
    runtime.run(coroutine())


REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("TFY0032", lambda: run_of(coroutine(), bogus=1)),
    ("TFY0032", lambda: run_of(coroutine(), threads=-1)),
    ("TFY0032", lambda: run_of(coroutine(), wal="wal")),
    ("TFY0025", lambda: tiffany.run(nested())),
    ("TFY0046", used_elsewhere),
    ("TFY0031", closed),
    ("TFY0032", lambda: asyncio.run(core_arun(coroutine(), bogus=1))),
    ("TFY0032", lambda: asyncio.run(core_arun(coroutine(), threads=-1))),
]
run_of: Any = tiffany.run


@pytest.mark.parametrize(("code", "act"), REFUSED)
def test_a_refused_run_leaves_no_coroutine_behind(code: str, act: Callable[[], Any]) -> None:
    """The program of a refused run is closed: Python does not say that it was never awaited."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(TiffanyError) as raised:
            act()
        assert raised.value.code == code
        del raised
        gc.collect()
    assert [str(warning.message) for warning in warned] == []


def test_the_error_of_another_thread_says_what_it_may_use() -> None:
    """It names the handle."""
    with pytest.raises(tiffany.errors.WrongThreadError, match=r"`runtime\.handle`"):
        used_elsewhere()
