"""What is said to durable runs and asked of them: in this thread, from other threads and from other processes."""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import Ledger, finish, python, wait_for
from tiffany import Runtime, connect, step, workflow
from tiffany.calls import CreateExternalPromise, Patched, ReceiveMessage, SendMessage, Sleep, Wait
from tiffany.durable import on_question
from tiffany.errors import NoSuchQuestionError, NoSuchRunError, RunOverError, UnreachableError


@workflow(name="basket")
def basket(size: int) -> Any:
    items: list[Any] = []
    on_question("items", lambda: items)
    on_question("item", lambda at: items[at])
    on_question("named", lambda *, at: items[at])
    on_question("wrong", lambda: 1 / 0)
    while len(items) < size:
        items.append((yield ReceiveMessage("item")))
    return items


def waiter(to: str, *items: Any) -> Any:
    for item in items:
        yield SendMessage(to, "item", item)
    try:
        yield SendMessage(uuid.UUID(int=7), "item", 1)
    except NoSuchRunError as error:
        return error.code


def test_messages_between_runs_and_from_the_program(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(basket, 4, id="basket-1")
        runtime.send(run, "item", ("a", 1))
        runtime.send("basket-1", "item", None)
        assert runtime.run(waiter("basket-1", {"b": 2}, 3), id="waiter-1") == "TFY0041"
        assert runtime.wait(run) == [("a", 1), None, {"b": 2}, 3]
        with pytest.raises(RunOverError):
            runtime.send(run, "item", 1)
        with pytest.raises(NoSuchRunError):
            runtime.send("nobody", "item", 1)
        with pytest.raises(tiffany.errors.BadArgumentError, match="is not a run"):
            runtime.send(7, "item", 1)  # type: ignore[arg-type]


def test_a_message_waits_in_the_log(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(basket, 2, id="basket-1")
        runtime.send(run, "item", 1)
        runtime.flush()
    with connect(tmp_path) as connection:
        assert connection.is_offline
        connection.send("basket-1", "item", 2)
        with pytest.raises(UnreachableError):
            connection.submit("basket", 1, id="basket-2")
    with Runtime(wal=tmp_path) as runtime:
        assert runtime.wait("basket-1") == [1, 2]


def test_questions(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(basket, 9, id="basket-1")
        runtime.send(run, "item", (1, 2))
        assert runtime.query(run, "items") == [(1, 2)]
        assert runtime.query(run, "item", 0) == (1, 2)
        assert runtime.query(run, "named", at=0) == (1, 2)
        with pytest.raises(NoSuchQuestionError, match="but `item`"):
            runtime.query(run, "nothing")
        with pytest.raises(tiffany.TiffanyError, match="ZeroDivisionError"):
            runtime.query(run, "wrong")
        with pytest.raises(tiffany.errors.BadArgumentError, match="not both"):
            runtime.query(run, "item", 0, at=0)
    with pytest.raises(tiffany.errors.OutsideTaskError):
        on_question("items", lambda: 1)


def approving(ledger: str, waits: bool = False) -> Any:
    promise = yield CreateExternalPromise()
    Ledger(ledger).write(promise.uuid)
    try:
        value = yield Wait(promise.future)
        if waits:
            yield ReceiveMessage("go on")
        return value
    except LookupError as error:
        return type(error).__name__, error.args


def test_a_promise_is_settled_by_a_thread(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    with Runtime(wal=tmp_path / "wal") as runtime:
        handle, said = runtime.handle, []

        def settle() -> None:
            (of,) = wait_for(ledger.read)
            said.append(handle.settle(of, {"yes": (1,)}))
            said.append(handle.settle(of, "late"))
            handle.send("a", "go on", None)

        thread = threading.Thread(target=settle)
        run = runtime.submit(approving, str(ledger.path), True, id="a")
        thread.start()
        assert runtime.wait(run) == {"yes": (1,)}
        while thread.is_alive():
            runtime.run(nap())
        thread.join()
    assert said == [True, False]


def nap() -> Any:
    yield Sleep(0.01)


def settle_elsewhere(wal: str, of: str, fail: bool) -> None:
    if fail:
        assert tiffany.calls.fail_by_uuid(of, KeyError("no", 7), wal=wal)
    else:
        assert tiffany.complete_by_uuid(of, ("yes", 7), wal=wal)


@pytest.mark.parametrize("fail", [False, True])
def test_a_promise_is_settled_by_another_process(fail: bool, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    wal = tmp_path / "wal"
    spawn = multiprocessing.get_context("spawn")
    with Runtime(wal=wal) as runtime:
        run = runtime.submit(approving, str(ledger.path), id="a")
        runtime.flush()
        runtime.run(nap())
        (of,) = wait_for(ledger.read)
        process = spawn.Process(target=settle_elsewhere, args=(str(wal), of, fail))
        process.start()
        value = runtime.wait(run)
        # It is told when the log has it, which this thread has to see to.
        while process.is_alive():
            runtime.run(nap())
        process.join()
    assert process.exitcode == 0
    assert value == (("KeyError", ("no", 7)) if fail else ("yes", 7))


def test_a_promise_is_settled_while_nobody_has_the_log(tmp_path: Path) -> None:
    ledger, wal = Ledger(tmp_path / "ledger"), tmp_path / "wal"
    with Runtime(wal=wal) as runtime:
        runtime.submit(approving, str(ledger.path), id="a")
        runtime.flush()
        runtime.run(nap())
    of = ledger.read()[0]
    assert tiffany.complete_by_uuid(of, 5, wal=wal)
    assert not tiffany.complete_by_uuid(of, 6, wal=wal)
    with pytest.raises(tiffany.errors.UnknownPromiseError):
        tiffany.complete_by_uuid(uuid.UUID(int=7), 6, wal=wal)
    with pytest.raises(tiffany.errors.UnknownPromiseError):
        tiffany.complete_by_uuid("no uuid", 6, wal=wal)
    with Runtime(wal=wal) as runtime:
        assert runtime.wait("a") == 5


def test_another_process_asks_and_is_answered(tmp_path: Path) -> None:
    process = python("programs/server.py", tmp_path)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with connect(tmp_path) as connection:
            assert not connection.is_offline
            status = connection.status()
            assert status.pid == process.pid and "shop" in status.workflows
            run = connection.submit("shop", name="tea", id="shop-1")
            assert connection.submit("shop", name="tea", id="shop-1") == run
            with pytest.raises(tiffany.errors.OtherRunError):
                connection.submit("shop", name="milk", id="shop-1")
            with pytest.raises(tiffany.errors.UnregisteredError):
                connection.submit("os:walk", top="/", id="walk")
            for bad in ("", "a\nb", "\x1b[31m"):
                with pytest.raises(tiffany.errors.BadArgumentError, match="the id"):
                    connection.submit("shop", name="tea", id=bad)
                with pytest.raises(tiffany.errors.BadArgumentError, match="the message's name"):
                    connection.send(run, bad, 1)
            connection.send(run, "item", {1, 2})
            assert connection.query("shop-1", "items") == [{1, 2}]
            assert connection.doubts() == [] and connection.paused() == []
            connection.cancel(run)
            wait_for(lambda: connection.status().live == 1)
            connection.send("stop-1", "stop", None)
        code, out, err = finish(process)
        assert (code, out) == (0, "stopped\n"), err
    finally:
        process.kill()


@step(kind="at_most_once", hold_in_doubt=True)
def pay(path: str) -> str:
    Ledger(path).write("pay")
    import os

    if not Path(path + ".safe").exists():
        os._exit(9)
    return "paid"


def paying(path: str) -> Any:
    try:
        return (yield pay(path))
    except tiffany.TiffanyError as error:
        return str(error)


def crash(wal: str, path: str) -> None:
    tiffany.run(paying(path), wal=wal, id="a")


@pytest.mark.parametrize("how", ["done", "failed", "again", "offline"])
def test_a_step_in_doubt_waits_for_a_person(how: str, tmp_path: Path) -> None:
    wal, path = tmp_path / "wal", str(tmp_path / "ledger")
    process = multiprocessing.get_context("spawn").Process(target=crash, args=(str(wal), path))
    process.start()
    process.join()
    assert process.exitcode == 9
    Path(path + ".safe").touch()
    if how == "offline":
        with connect(wal) as connection:
            (doubt,) = connection.doubts()
            connection.decide(doubt.key, done=["by hand"])
    with Runtime(wal=wal) as runtime:
        if how == "offline":
            assert runtime.wait("a") == ["by hand"]
            return
        (doubt,) = runtime.doubts()
        assert doubt.step == "pay" and doubt.attempt == 1 and doubt.waits
        assert doubt.key.startswith(str(doubt.run))
        with pytest.raises(tiffany.errors.BadArgumentError, match="exactly one decision"):
            runtime.decide(doubt.key)
        with pytest.raises(tiffany.errors.BadArgumentError, match="in doubt"):
            runtime.decide("nothing", again=True)
        said: dict[str, Any] = {"done": ("by hand",), "failed": "it was refused", "again": True}
        runtime.decide(doubt.key, **{how: said[how]})
        value = runtime.wait("a")
    paid = Ledger(path).read().count("pay")
    assert paid == (2 if how == "again" else 1)
    expected = {"done": ("by hand",), "again": "paid"}
    assert value == expected[how] if how in expected else "it was refused" in value


@step
def old_way() -> str:
    return "old"


@step
def new_way() -> str:
    return "new"


def unpatched(more: int) -> Any:
    one = yield old_way()
    two = yield ReceiveMessage("go on")
    return one, two


def patched(more: int) -> Any:
    one = (yield new_way()) if (yield Patched("way")) else (yield old_way())
    two = yield ReceiveMessage("go on")
    return one, two


def test_new_code_lives_with_old_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime(wal=tmp_path) as runtime:
        runtime.submit(unpatched, 1, id="old")
        runtime.run(nap())
        runtime.flush()
        while runtime.run(look(str(tmp_path))) < 1:
            pass
    monkeypatch.setitem(globals(), "unpatched", patched)
    with Runtime(wal=tmp_path) as runtime:
        runtime.send("old", "go on", 1)
        assert runtime.wait("old") == ("old", 1)
        new = runtime.submit(patched, 1, id="new")
        runtime.send(new, "go on", 2)
        assert runtime.wait(new) == ("new", 2)


def look(wal: str) -> Any:
    yield Sleep(0.02)
    files = Path(wal, "wal").glob("*.wal")
    return sum("EffectResult" in file.read_text() for file in files)


def ephemeral() -> Any:
    yield ReceiveMessage("x")


def test_what_needs_a_durable_run() -> None:
    with pytest.raises(tiffany.TiffanyError) as raised:
        tiffany.run(waiter("basket-1", 1))
    assert raised.value.code == "TFY0020"
    with pytest.raises(tiffany.errors.NotDurableError, match="not durable"):
        tiffany.run(ephemeral())
