"""Whom a client asks: the process that owns a directory, by its socket or as this process itself, or
a daemon over HTTP. A peer knows its protocol, retries what can be retried, and opens streams.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from tiffany.client import _failures
from tiffany.client._http import Head, HttpRequest, ServerSentEvents, body, head, text_of
from tiffany.client._io import Address, Closed, Program, action
from tiffany.client._rest import API, Raw, dumps, http_of
from tiffany.errors import NoActivityError, UnreachableError

ANSWER_SECONDS = 35.0
"""How long an answer is waited for. A daemon gives up after 30 seconds, and says why."""
SILENCE_SECONDS = 60.0
"""A daemon gives a sign of life on a stream every 15 seconds. After this it counts as gone."""
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 1.0

_SAFE_TO_REPEAT = frozenset(
    [
        "status",
        "submit",
        "runs",
        "show",
        "outcome",
        "question",
        "allow",
        "metrics",
        "doubts",
        "approvals",
    ]
)
"""Requests that come to the same however often they are asked."""
_NOT_BEGUN = frozenset(["TFY0158", "TFY0159", "TFY0161", "TFY0250"])
"""What a daemon answers that has not begun a request and may take it a little later."""
_WITH_VALUES = frozenset(["submit", "send", "settle", "question", "fork", "decide"])
_log = logging.getLogger("tiffany")

Frame = tuple[str, Any]
"""What comes of a stream: ``event``, ``lost``, ``idle``, ``up to date``, ``end`` or ``failed``."""


class Stream(Protocol):
    """A stream of events."""

    epoch: int

    next_seq: int

    def next(self, limit: float | None = None) -> Program[Frame]:
        """Returns what comes next, or raises `TimeoutError` if nothing does in time."""

    def close(self) -> None:
        """Ends it."""


class Peer(Protocol):
    """Whom a client asks."""

    where: str
    retry: float
    waits: bool
    """Whether a request for an outcome waits for it."""

    def ask(self, name: str, given: dict[str, Any]) -> Program[Any]:
        """Asks for something, and returns the answer in the form of the socket."""

    def stream(self, wanted: dict[str, Any], last: tuple[int, int] | None) -> Program[Stream]:
        """Opens a stream of events, after the last one that is known: its epoch and its number."""


def _pauses() -> Any:
    pause = _FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 2, _MAX_PAUSE)


@dataclass
class HttpPeer:
    """A daemon."""

    address: Address
    where: str
    host: str
    token: Any
    retry: float
    waits: bool = True

    def ask(self, name: str, given: dict[str, Any]) -> Program[Any]:
        request, answer = http_of(name, given)
        release = yield action("enter")
        try:
            came, data = yield from self._tried(
                request, name in _SAFE_TO_REPEAT, ANSWER_SECONDS + float(given.get("wait") or 0)
            )
        finally:
            release()
        if came.status >= 400:
            raise _failures.of_problem(came.status, data, request.what)
        if "tiffany-warning" in came.headers:
            _log.warning("%s", came.headers["tiffany-warning"])
        try:
            return answer(json.loads(data) if data else None)
        except (ValueError, KeyError, TypeError) as error:
            raise _failures.old_daemon(
                f"the answer to {request.what} that is needed ({error!r})"
            ) from None

    def _tried(
        self, request: HttpRequest, is_safe: bool, timeout: float
    ) -> Program[tuple[Head, bytes]]:
        """Sends a request, again where that is safe, until an answer is there."""
        until = time.monotonic() + self.retry
        for pause in _pauses():
            begun, why = False, None
            try:
                wire = yield action("take")
                if wire is None:
                    wire = yield action("open", self.address)
                begun = True
                came, data = yield from self._talk(wire, request, timeout)
                if not (came.status in (429, 503) and _code(data) in _NOT_BEGUN):
                    return came, data
                if time.monotonic() >= until:
                    return came, data
                begun = False
            except (OSError, Closed) as error:
                if _failures.is_tls(error):
                    raise _failures.tls(self.where, error) from error
                why = error
            if (begun and not is_safe) or time.monotonic() >= until:
                unsure = begun and not is_safe
                raise _failures.lost(self.where, why, self.retry, unsure) from why
            yield action("sleep", pause)
        raise AssertionError("there is always another pause")

    def _talk(self, wire: Any, request: HttpRequest, timeout: float) -> Program[tuple[Head, bytes]]:
        is_whole = False
        try:
            sent = text_of(request, self.host, self.token())
            yield lambda _: wire.send(sent)
            came = yield from head(wire, timeout)
            data = yield from body(wire, came, timeout)
            is_whole = came.keeps_alive
        finally:
            if not is_whole:
                wire.close()
        yield action("give", wire)
        return came, data

    def stream(self, wanted: dict[str, Any], last: tuple[int, int] | None) -> Program[Stream]:
        query = [f"ghosts={_word(wanted['ghosts'])}"]
        query += (
            [f"from={wanted['from']}"] if wanted.get("from") is not None and last is None else []
        )
        query += ["all=true"] if wanted.get("detail") == "all" else []
        query += ["ends=true"] if wanted.get("ends") else []
        run = f"/runs/{wanted['run']}" if wanted.get("run") else ""
        headers = (("Last-Event-ID", f"{last[0]}-{last[1]}"),) if last else ()
        path = f"{API}{run}/events?{'&'.join(query)}"
        request = HttpRequest("GET", path, accept="text/event-stream", headers=headers)
        wire = yield action("open", self.address)
        try:
            sent = text_of(request, self.host, self.token())
            yield lambda _: wire.send(sent)
            came = yield from head(wire, ANSWER_SECONDS)
            if came.status >= 400:
                data = yield from body(wire, came, ANSWER_SECONDS)
                raise _failures.of_problem(came.status, data, request.what)
            events = ServerSentEvents(wire)
            hello = yield from events.next(ANSWER_SECONDS)
            if hello is None or hello[0] != "streaming":
                raise _failures.not_a_daemon("its stream has no beginning")
            return HttpStream(wire, events, int(hello[1]["epoch"]), int(hello[1]["next_seq"]))
        except BaseException:
            wire.close()
            raise


def _word(value: bool) -> str:
    return "true" if value else "false"


def _code(data: bytes) -> str | None:
    try:
        code = json.loads(data)["code"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(code)


@dataclass
class HttpStream:
    """Events of a daemon."""

    wire: Any
    events: ServerSentEvents
    epoch: int
    next_seq: int

    def next(self, limit: float | None = None) -> Program[Frame]:
        # It cannot be left in the middle of an event, and says something every few seconds.
        came = yield from self.events.next(SILENCE_SECONDS)
        if came is None:
            raise Closed("the stream ended")
        name, data = came
        if name == "activity":
            return ("event", data)
        if name == "lost":
            return ("lost", data["count"])
        if name == "failed":
            return ("failed", _failures.of_problem(503, json.dumps(data).encode(), "the stream"))
        if name == "end":
            raise Closed(str(data.get("reason")))
        return ("idle", None)

    def close(self) -> None:
        self.wire.close()


@dataclass
class SocketPeer:
    """The process that owns a directory. With a `control` it is asked by the compiled part, which
    can also be the directory itself where no process owns it.
    """

    address: Address
    where: str
    retry: float
    control: bool
    waits: bool = False
    _offline: list[bool] = field(default_factory=list)

    def ask(self, name: str, given: dict[str, Any]) -> Program[Any]:
        if name == "outcome":
            name, given = "show", {"run": given["run"]}
        asked: Any = {name: _socket_form(name, given)} if given else name
        if self.control:
            answer = json.loads((yield from self._asked(dumps(asked), name in _SAFE_TO_REPEAT)))
        else:
            text = dumps({"encoded": asked} if name in _WITH_VALUES else asked)
            release = yield action("enter")
            try:
                came = yield from self._tried(text, name in _SAFE_TO_REPEAT)
            finally:
                release()
            if "Err" in came:
                raise _failures.recorded(came["Err"])
            answer = came["Ok"]
        return _told(answer)

    def _asked(self, text: str, is_safe: bool) -> Program[str]:
        until = time.monotonic() + (self.retry if is_safe else 0)
        for pause in _pauses():
            try:
                answer: str = yield action("ask", text)
                return answer
            except UnreachableError:
                if time.monotonic() >= until:
                    raise
            yield action("sleep", pause)
        raise AssertionError("there is always another pause")

    def _tried(self, text: str, is_safe: bool) -> Program[dict[str, Any]]:
        until = time.monotonic() + self.retry
        for pause in _pauses():
            begun = False
            try:
                wire = yield action("take")
                if wire is None:
                    wire = yield action("open", self.address)
                begun = True
                came: dict[str, Any] = yield from _exchanged(wire, text)
                return came
            except (OSError, Closed) as error:
                why = error
            if (begun and not is_safe) or time.monotonic() >= until:
                unsure = begun and not is_safe
                raise _failures.lost(self.where, why, self.retry, unsure) from why
            yield action("sleep", pause)
        raise AssertionError("there is always another pause")

    def stream(self, wanted: dict[str, Any], last: tuple[int, int] | None) -> Program[Stream]:
        asked = {key: value for key, value in wanted.items() if value is not None}
        if last is not None:
            asked["from"] = last[1] + 1
        stream = yield from self._opened(asked)
        if last is not None and stream.epoch != last[0]:
            # The numbers of another process mean nothing: all that it knows is wanted.
            stream.close()
            stream = yield from self._opened({**asked, "from": 0})
        return stream

    def _opened(self, asked: dict[str, Any]) -> Program[SocketStream]:
        wire = yield action("open", self.address)
        try:
            text = dumps({"events": asked}) + "\n"
            yield lambda _: wire.send(text.encode())
            came = json.loads((yield lambda _: wire.line(ANSWER_SECONDS)))
            if "Err" in came:
                raise _failures.recorded(came["Err"])
            beginning = came["Ok"]["streaming"]
            return SocketStream(wire, int(beginning["epoch"]), int(beginning["next_seq"]))
        except BaseException:
            wire.close()
            raise


def _exchanged(wire: Any, text: str) -> Program[Any]:
    is_whole = False
    try:
        yield lambda _: wire.send((text + "\n").encode())
        came = json.loads((yield lambda _: wire.line(ANSWER_SECONDS)))
        is_whole = True
    finally:
        if not is_whole:
            wire.close()
    yield action("give", wire)
    return came


def _socket_form(name: str, given: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in given.items() if value is not None}
    return {**kept, "fork": Raw(kept["fork"])} if name == "fork" else kept


def _told(answer: Any) -> Any:
    """Takes an answer out of what it is wrapped in."""
    if not isinstance(answer, dict):
        return None
    (name, told), *_ = answer.items()
    if name == "warned":
        _log.warning("%s", told["warning"])
        return _told(told["answer"])
    if name == "each":
        for each in told:
            if "Err" in each:
                raise _failures.recorded(each["Err"])
    return told


@dataclass
class SocketStream:
    """Events of the process that owns a directory."""

    wire: Any
    epoch: int
    next_seq: int

    def next(self, limit: float | None = None) -> Program[Frame]:
        line = json.loads((yield lambda _: self.wire.line(limit)))
        if line == "up_to_date":
            return ("up to date", None)
        if line == "end":
            raise Closed("the process ended")
        (name, told), *_ = line.items()
        return ("failed", _failures.recorded(told)) if name == "failed" else (name, told)

    def close(self) -> None:
        self.wire.close()


class NoPeer:
    """A runtime of this process: requests are asked of it, and it has its own subscriptions."""

    where = "this process"
    retry = 0.0
    waits = False

    def ask(self, name: str, given: dict[str, Any]) -> Program[Any]:
        return SocketPeer(Address(""), self.where, 0.0, control=True).ask(name, given)

    def stream(self, wanted: dict[str, Any], last: tuple[int, int] | None) -> Program[Stream]:
        raise NoActivityError(
            "the handle of a runtime has no stream of events [TFY0150]; "
            "subscribe with `runtime.activity()`"
        )
        yield  # pragma: no cover
