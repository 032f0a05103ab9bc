"""What a client can do, once for all clients: each method is a program, which says what is asked and
what is made of the answer. How it waits, and how the request travels, is decided elsewhere.
"""

from __future__ import annotations

import functools
import json
import time
import uuid as _uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeVar

from tiffany import _approvals, _arguments, _core
from tiffany._approvals import Approval, OpenApproval
from tiffany._arguments import bad, seconds
from tiffany._attributes import Attribute
from tiffany._records import (
    Doubt,
    Paused,
    Run,
    RunLike,
    RunPage,
    Status,
    doubt,
    paused_run,
    run_page,
)
from tiffany.client import _failures
from tiffany.client._io import Program, action
from tiffany.client._peer import Peer
from tiffany.client._records import RunDetail, decoded, run_detail
from tiffany.client._rest import Raw
from tiffany.durable import _control
from tiffany.durable._control import _NOTHING
from tiffany.errors import of_code
from tiffany.metrics import Metrics, _read

T = TypeVar("T")

_LONG_WAIT = 30
"""How long, in seconds, one request to a daemon waits for an outcome."""


class Calls:
    """The methods of all clients, as programs."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def _ask(self, request: str, /, **given: Any) -> Program[Any]:
        return (yield from self.peer.ask(request, given))

    def status(self) -> Program[Status]:
        """Returns the status of the process that owns the log."""
        told = yield from self._ask("status")
        names = [function["name"] for function in told["functions"]]
        paused = [paused_run(_paused(each)) for each in told["paused"]]
        return Status(told["pid"], told["version"], names, told["live"], paused)

    def submit(
        self,
        workflow: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        id: str | None,
        start: tuple[list[str], dict[str, Attribute], Any],
    ) -> Program[Run[Any]]:
        """Starts a durable run of a workflow, or finds the run that has this id."""
        if id is not None:
            _text("id", id)
        name, given = _control.started(workflow, args, kwargs)
        id = str(_uuid.uuid4()) if id is None else id
        options = json.loads(_core._start_options(start)) or None
        told = yield from self._ask(
            "submit", function=name, id=id, input=Raw(given), options=options
        )
        return Run(id, _uuid.UUID(told["run"]))

    def page(self, query: dict[str, Any]) -> Program[RunPage]:
        """Returns one page of a list of runs."""
        return run_page((yield from self._ask("runs", **query)))

    def show(self, run: RunLike) -> Program[RunDetail]:
        """Returns a run with its tasks and what they wait for, or with its value."""
        return run_detail((yield from self._ask("show", run=_core._run_uuid(run))))

    def result(self, run: RunLike, timeout: float | timedelta | None) -> Program[Any]:
        """Waits for the outcome of a run, and returns its value or raises its error."""
        uuid = _core._run_uuid(run)
        until = None if timeout is None else time.monotonic() + seconds("`timeout`", timeout)
        found = _recorded((yield from self._ask("outcome", run=uuid, wait=self._wait(until))))
        if found is not None:
            return found[0]
        if self.peer.waits:
            while found is None:
                _check_time(run, until, timeout)
                told = yield from self._ask("outcome", run=uuid, wait=self._wait(until))
                found = _recorded(told)
            return found[0]
        waiter = yield action("waiter", uuid)
        try:
            while found is None:
                found = _recorded((yield from self._ask("outcome", run=uuid)))
                if found is None:
                    _check_time(run, until, timeout)
                    left = None if until is None else max(0.0, until - time.monotonic())
                    yield functools.partial(_wait, waiter, left)
        finally:
            waiter.close()
        return found[0]

    def _wait(self, until: float | None) -> float | None:
        if not self.peer.waits:
            return None
        left = _LONG_WAIT if until is None else max(0.0, until - time.monotonic())
        # Daemons wait for whole seconds.
        return min(_LONG_WAIT, max(1, round(left))) if left > 0 else None

    def send(self, run: RunLike, name: str, value: Any) -> Program[None]:
        """Sends a message to a run, which receives it with `ReceiveMessage`."""
        uuid = _core._run_uuid(run)
        message = Raw(_core._encode(value, f"message `{_text('name', name)}`"))
        yield from self._ask("send", run=uuid, name=name, message=message)

    def cancel(self, run: RunLike) -> Program[None]:
        """Cancels a run."""
        yield from self._ask("cancel", run=_core._run_uuid(run))

    def hold(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> Program[None]:
        """Holds a run: it gets no turns until `release`. Steps in progress finish and are recorded.
        ``by`` is the person who holds it, by default the user of this process; over HTTP it is the
        owner of the token.
        """
        yield from self._ask("hold", **_reason(run, why, by))

    def release(
        self, run: RunLike, *, why: str | None = None, by: str | None = None
    ) -> Program[None]:
        """Releases a run that a person or a limit holds, so that it continues. An exceeded limit is
        doubled.
        """
        yield from self._ask("release", **_reason(run, why, by))

    def query(self, run: RunLike, name: str, *args: Any, **kwargs: Any) -> Program[Any]:
        """Sends a query to a run, which answers it with `on_question`."""
        uuid, given = _core._run_uuid(run), Raw(_control.question(args, kwargs))
        return decoded(
            (yield from self._ask("question", run=uuid, name=_text("name", name), input=given))
        )

    def fork(
        self,
        run: RunLike,
        at: int,
        *,
        reply: Any = _NOTHING,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> Program[Run[Any]]:
        """Forks a run at a record, as `Runtime.fork` does. If no process owns the log, the fork
        continues when its directory is opened.
        """
        given = _core._fork(_control.forked(reply, fail, as_is, allow, id))
        _arguments.whole("`at`", at)
        told = yield from self._ask("fork", run=_core._run_uuid(run), at=at, fork=given)
        return Run(told["id"], _uuid.UUID(told["run"]))

    def allow(self, run: RunLike, *names: str) -> Program[None]:
        """Allows a fork to execute the steps with these names, or all steps with ``"*"``. A step
        that the fork was paused for starts if it is now allowed.
        """
        named = [_text("a name in `allow`", name) for name in names]
        yield from self._ask("allow", run=_core._run_uuid(run), names=named)

    def settle(
        self, promise: Any, value: Any = None, *, run: RunLike | None = None
    ) -> Program[bool]:
        """Completes an external promise of a run by its UUID. Returns ``False`` if it was already
        settled.

        A fork shares the promises of its parent. To settle the fork's own, name the fork as
        ``run``.
        """
        result = {"Ok": Raw(_core._encode(value, "the value of a promise"))}
        return (yield from self._settled(promise, run, result))

    def fail(
        self, promise: Any, error: BaseException | str, *, run: RunLike | None = None
    ) -> Program[bool]:
        """Fails an external promise of a run. Returns ``False`` if it was already settled. For a
        promise of a fork, name the fork as ``run``. Over HTTP an exception is sent as its text.
        """
        return (yield from self._settled(promise, run, {"Err": Raw(_core._failure(error))}))

    def _settled(self, promise: Any, run: RunLike | None, result: dict[str, Raw]) -> Program[bool]:
        of = None if run is None else _core._run_uuid(run)
        uuid = _core._promise_uuid(promise)
        told = yield from self._ask("settle", promise=uuid, run=of, result=result)
        return bool(told == "Accepted")

    def paused(self) -> Program[list[Paused]]:
        """Returns the runs that cannot continue, with the reasons."""
        return (yield from self.status()).paused

    def metrics(self) -> Program[Metrics]:
        """Returns the metrics of the process that owns the log."""
        told = yield from self._ask("metrics")
        text = json.dumps(told)
        return _read((_core._metrics_text(text), text))

    def doubts(self) -> Program[list[Doubt]]:
        """Returns the steps in doubt."""
        told = yield from self._ask("doubts")
        return [
            doubt((each["key"], each["run"], each["step"], each["attempt"], each["waits"]))
            for each in told
        ]

    def decide(
        self, key: str, *, done: Any = _NOTHING, failed: str | None = None, again: bool = False
    ) -> Program[None]:
        """Decides a step in doubt, given by its key: it was carried out, with this result; it
        failed; or it is to be run again.
        """
        word, given = _control.decision(done, failed, again)
        said: Any = "again" if word == "again" else {word: given}
        if word == "done":
            said = {"done": Raw(_core._encode(given, "the result of a step"))}
        elif word == "failed":
            _text("failed", given)
        yield from self._ask("decide", key=_text("key", key), decision=said)

    def approvals(self) -> Program[list[OpenApproval]]:
        """Returns the questions of all runs that wait for a person. Runs ask them with `Approve`."""
        told = yield from self._ask("approvals")
        return [
            _approvals.open_approval({**each, "payload": decoded(each.get("payload"))})
            for each in told
        ]

    def approve(
        self,
        approval: str,
        choice: str | None = None,
        *,
        by: str | None = None,
        why: str | None = None,
    ) -> Program[Approval]:
        """Decides a question, given by its id: with the first of two choices, or with the named
        choice. The first answer counts. Over HTTP, ``by`` is the owner of the token.
        """
        pick: Any = "yes" if choice is None else {"choice": _text("choice", choice)}
        return (yield from self._resolved(approval, pick, by, why))

    def reject(
        self, approval: str, *, by: str | None = None, why: str | None = None
    ) -> Program[Approval]:
        """Decides a question, given by its id, with the last of its choices, which is the
        rejection.
        """
        return (yield from self._resolved(approval, "no", by, why))

    def _resolved(
        self, approval: str, pick: Any, by: str | None, why: str | None
    ) -> Program[Approval]:
        said = {"by": _maybe_text("by", by), "why": _maybe_text("why", why)}
        ruling = {"pick": pick, **{key: value for key, value in said.items() if value is not None}}
        asked = self._ask("resolve", approval=_text("approval", approval), ruling=ruling)
        return _approvals.approval((yield from asked))

    def remove(self, run: RunLike) -> Program[None]:
        """Removes a finished run, as `Runtime.remove` does."""
        yield from self._ask("remove", runs=[_core._run_uuid(run)])


def _recorded(told: dict[str, Any]) -> tuple[Any] | None:
    """Returns what came of a run, if that is fixed. Raises the error that it ended with, or the one
    that keeps it from continuing.
    """
    recorded = told.get("recorded")
    if recorded is not None:
        if "Err" in recorded:
            raise _failures.recorded(recorded["Err"])
        return (decoded(recorded["Ok"]),)
    if told["state"] in ("live", "ending"):
        return None
    error = told.get("error") or {"code": "TFY0001", "message": f"the run is {told['state']}"}
    code, message = error["code"], error["message"]
    step = "see with `tiffany show` what it needs to continue"
    raise of_code(code)(f"run {told['uuid']} is {told['state']}: {message} [{code}]; {step}")


def _wait(waiter: Any, left: float | None, _: Any) -> Any:
    return waiter.wait(left)


def _check_time(run: RunLike, until: float | None, timeout: Any) -> None:
    if until is not None and time.monotonic() >= until:
        raise TimeoutError(f"the run {run!r} has not ended within {timeout} seconds")


def _paused(each: dict[str, Any]) -> tuple[str, str, str]:
    """The socket has the whole error of a paused run, and HTTP its code and its message."""
    if "error" in each:
        code, text = _core._error_parts(json.dumps(each["error"]))
        return each["run"], code, text
    return each["run"], each["code"], each["message"]


def _reason(run: RunLike, why: str | None, by: str | None) -> dict[str, Any]:
    by = _text("by", _arguments.user(by))
    return {"run": _core._run_uuid(run), "by": by, "why": _maybe_text("why", why)}


def _text(name: str, given: Any) -> str:
    if not isinstance(given, str):
        raise bad(f"`{name}` is a text, not {given!r}")
    return given


def _maybe_text(name: str, given: Any) -> str | None:
    return None if given is None else _text(name, given)
