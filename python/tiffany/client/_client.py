"""`Client`: durable runs from another thread or process, or over HTTP, on a thread that waits."""

from __future__ import annotations

import functools
import time
import uuid as _uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from tiffany import _attributes, _core, _retention
from tiffany._activity import Activity, Lost
from tiffany._attributes import Attribute, Deadline
from tiffany._records import Run, RunInfo, RunLike
from tiffany._retention import Collected, Compacted, Pruned, Retention
from tiffany._run_query import Sort, run_query
from tiffany.client import _failures, _target
from tiffany.client._calls import Calls
from tiffany.client._events import ENDS, EventReader, Restarted, wanted
from tiffany.client._io import Blocking, Program
from tiffany.client._peer import NoPeer
from tiffany.client._target import Path
from tiffany.durable._runtime import Program as Workflow
from tiffany.durable._state_machines import StateMachine
from tiffany.errors import NeedsFilesError, NoActivityError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_P = ParamSpec("_P")

RETRY_SECONDS = 10.0
"""How long a client tries again, by default, while a daemon restarts."""
_LOOK_SECONDS = 15.0
"""How often a run that is waited for is looked at without an event: being paused is none."""
_POLL_SECONDS = 0.05


def _blocking(
    call: Callable[Concatenate[Calls, _P], Program[_T]],
) -> Callable[Concatenate[Client, _P], _T]:
    """Makes a method of a program."""

    @functools.wraps(call)
    def method(self: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._run(call(self._calls, *args, **kwargs))

    return method


class Client:
    """Durable runs of another thread, of another process, or of a daemon over HTTP.

    ``Client("wal")`` talks to the process that owns the directory or, if there is none, owns it
    while the client is open; changes then take effect when its runs are resumed.
    ``Client("https://host:8787", token=...)`` talks to a daemon. Every method returns when its
    change is safe in the log. `tiffany.AsyncClient` has the same methods for asyncio.

    Threads may share a client. Close it when you are done, preferably with ``with``.

    Over HTTP: the token is ``token``, the content of ``token_file``, or that of the variables
    ``TIFFANY_TOKEN`` or ``TIFFANY_TOKEN_FILE``. ``ca`` is a file with the certificates that the
    daemon's is checked against, ``cert`` a file with the client's own certificate and key, or two
    files. Without TLS only this machine is reached, unless ``insecure`` is true. While a daemon
    restarts, requests that can be repeated safely are repeated for ``retry`` seconds.

    >>> import tempfile
    >>> from tiffany import Client, Runtime, workflow
    >>> @workflow(name="greet by client")
    ... def greet(name):
    ...     return f"hello {name}"
    ...     yield
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal) as runtime:
    ...         runtime.run(greet("Ada"), id="greet-1")
    ...     with Client(wal) as client:
    ...         [(run.id, run.state) for run in client.runs()]
    'hello Ada'
    [('greet-1', 'completed')]
    """

    def __init__(
        self,
        target: Path,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        ca: Path | None = None,
        cert: Path | tuple[Path, Path] | None = None,
        insecure: bool = False,
        retry: float | timedelta = RETRY_SECONDS,
    ) -> None:
        again = _target.seconds("retry", retry)
        self._control: Any = None
        if _target.is_url(target):
            self._calls = Calls(
                _target.http_peer(
                    str(target),
                    token=token,
                    token_file=token_file,
                    ca=ca,
                    cert=cert,
                    insecure=insecure,
                    retry=again,
                )
            )
        else:
            check_directory(target, token, token_file, ca, cert)
            self._control = _core._Control(target)
            self._calls = Calls(_target.socket_peer(target, again, control=True))
        self._io = _Waiting(self)

    @classmethod
    def _of(cls, control: Any) -> Client:
        """Returns the client of a runtime of this process."""
        client = cls.__new__(cls)
        client._control = control
        client._calls = Calls(NoPeer())
        client._io = _Waiting(client)
        return client

    def _run(self, program: Program[_T]) -> _T:
        return self._io.run(program)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client, and releases the directory if the client owned it."""
        if self._control is not None:
            self._control.close()
        self._io.close()

    @property
    def is_offline(self) -> bool:
        """Whether no process owns the log, so that changes take effect only when its runs are
        resumed.
        """
        return self._control is not None and bool(self._control.is_offline())

    @overload
    def submit(
        self,
        workflow: Callable[[Unpack[_Ts]], Workflow[_T]],
        /,
        *args: *_Ts,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
    ) -> Run[_T]: ...
    @overload
    def submit(
        self,
        workflow: type[StateMachine],
        /,
        *args: Any,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]: ...
    @overload
    def submit(
        self,
        workflow: str,
        /,
        *args: Any,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]: ...
    # The checker does not see that `Any` is all of them.
    def submit(  # type: ignore[misc]
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]:
        """Starts a durable run of a workflow, given as a function or by name, or finds the run that
        has this id. Without an id the run gets a random one.

        A new run has these tags and attributes, and fails if it has not ended at its deadline: a
        moment, or a time from its start.
        """
        start = _attributes.given(workflow, tags, attributes, deadline)
        return self._run(self._calls.submit(workflow, args, kwargs, id, start))

    @overload
    def result(self, run: Run[_T], *, timeout: float | timedelta | None = None) -> _T: ...
    @overload
    def result(self, run: _uuid.UUID | str, *, timeout: float | timedelta | None = None) -> Any: ...
    def result(self, run: RunLike, *, timeout: float | timedelta | None = None) -> Any:
        """Waits until the outcome of a run is final and safe in the log, and returns its value. A
        run that failed raises its error, of the same class as in the run's own process if this one
        has the class. A run that is paused or held raises the reason.
        """
        return self._run(self._calls.result(run, timeout))

    def runs(
        self,
        *,
        state: str | Iterable[str] | None = None,
        function: str | None = None,
        text: str | None = None,
        since: datetime | str | None = None,
        before: datetime | str | None = None,
        parent: RunLike | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | Iterable[str] | None = None,
        sort: Sort = "started",
        descending: bool | None = None,
        page: int = 100,
    ) -> Iterator[RunInfo]:
        """Iterates over the runs that fit all filters, the newest first. Pages of this size are
        fetched as they are needed.

        ``state`` is one state or several, by default all but removed runs; ``text`` is part of an
        id, a function or a UUID; ``since`` and ``before`` are about the start of a run; ``parent``
        selects the forks of a run; ``tags`` are tags that the runs have, all of them;
        ``attributes`` are values that they have, as a dict, or conditions such as
        ``"amount>=10"``.
        """
        asked = run_query(
            state=state,
            function=function,
            text=text,
            since=since,
            before=before,
            parent=parent,
            tags=tags,
            attributes=attributes,
            sort=sort,
            descending=descending,
            limit=("page", page),
        )
        return self._pages(asked)

    def _pages(self, asked: dict[str, Any]) -> Iterator[RunInfo]:
        while True:
            page = self._run(self._calls.page(asked))
            yield from page
            if page.next is None:
                return
            asked = {**asked, "after": page.next}

    def events(
        self,
        run: RunLike | None = None,
        *,
        from_seq: int | None = None,
        every_turn: bool = False,
        ghosts: bool = True,
    ) -> Events:
        """Iterates over live events of one run, until it has ended, or of all runs.

        The events begin now, or with ``from_seq`` at that event, as far as it is still available
        (0: at the first). If the connection is lost, they continue after the last one. What was
        missed is said by a `Lost`; that another process serves them now, by a `Restarted`.
        """
        of = None if run is None else _core._run_uuid(run)
        return Events(self, wanted(of, from_seq, every_turn, ghosts))

    status = _blocking(Calls.status)
    show = _blocking(Calls.show)
    send = _blocking(Calls.send)
    cancel = _blocking(Calls.cancel)
    hold = _blocking(Calls.hold)
    release = _blocking(Calls.release)
    query = _blocking(Calls.query)
    fork = _blocking(Calls.fork)
    allow = _blocking(Calls.allow)
    settle = _blocking(Calls.settle)
    fail = _blocking(Calls.fail)
    paused = _blocking(Calls.paused)
    metrics = _blocking(Calls.metrics)
    doubts = _blocking(Calls.doubts)
    decide = _blocking(Calls.decide)
    approvals = _blocking(Calls.approvals)
    approve = _blocking(Calls.approve)
    reject = _blocking(Calls.reject)
    remove = _blocking(Calls.remove)

    def compact(self, *runs: RunLike) -> Compacted:
        """Compacts finished runs, as `Runtime.compact` does."""
        return _retention.compacted(self._files("compact").compact(list(runs)))

    def prune(self, *rules: Retention, dry_run: bool = False) -> Pruned:
        """Applies rules about finished runs, or with ``dry_run`` only reports what they would do,
        as `Runtime.prune` does. It works in small batches, so that live runs are hardly affected.
        """
        control = self._files("prune")
        return _retention.pruned(control.prune(_retention.some_rules(rules), dry_run))

    def collect_blobs(self) -> Collected:
        """Removes the blobs that no run refers to. `prune` does this too."""
        return Collected(*self._files("collect_blobs").collect_blobs())

    def _files(self, what: str) -> Any:
        if self._control is None:
            raise NeedsFilesError(
                f"`{what}` works on the files of a log, which a client over HTTP does not reach "
                "[TFY0304]; do it on the daemon's machine, with `Client(DIR)` or `tiffany rm`"
            )
        return self._control


class Events:
    """Live events of a client. Close it when you no longer need it, preferably with ``with``."""

    def __init__(self, client: Client, asked: dict[str, Any]) -> None:
        self._client = client
        self._reader = EventReader(client._calls.peer, asked)
        # Events are those from this call on, and not from the first one that is taken.
        client._run(self._reader.open())

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Activity | Lost | Restarted:
        item = self._client._run(self._reader.next())
        if item is None:
            raise StopIteration
        return item

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream. A thread that waits for the next event is woken."""
        self._reader.close()


class _Waiting(Blocking):
    """Carries out the actions of a client, and waits for the ends of runs."""

    def __init__(self, client: Client) -> None:
        super().__init__(client._control)
        self._client = client

    def waiter(self, run: str) -> _Waiter:
        """Returns what waits for the end of a run. What happens from now on is not missed."""
        return _Waiter(self._client, run)


class _Waiter:
    """Waits for the end of one run by its events."""

    def __init__(self, client: Client, run: str) -> None:
        self._reader: EventReader | None = None
        self._pause = _POLL_SECONDS / 8
        self._io = client._io
        if client.is_offline:
            raise NoActivityError(
                "no process owns the directory, so the run makes no progress [TFY0150]; "
                "start the program that the runs belong to"
            )
        if not isinstance(client._calls.peer, NoPeer):
            reader = EventReader(client._calls.peer, wanted(run, None, False, False, ends=True))
            self._io.run(reader.open())
            self._reader = reader

    def wait(self, left: float | None) -> None:
        """Waits until the run may have ended."""
        limit = _LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS)
        if self._reader is None:
            # The events come before their records are safe, so the outcome is looked for again.
            time.sleep(min(self._pause, limit))
            self._pause = min(self._pause * 2, _POLL_SECONDS)
            return
        item = self._io.run(self._reader.next(limit))
        if isinstance(item, Activity) and item.stage in ENDS:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        """Ends it."""
        if self._reader is not None:
            self._reader.close()


def check_directory(target: Any, *given: Any) -> None:
    """Checks what is given with a directory."""
    if any(each is not None for each in given):
        raise _failures.settings(
            f"`token`, `ca` and `cert` are for a URL, and {target!r} is a directory",
            "leave them out, or give the URL of a daemon",
        )


def connect(wal: Path) -> Client:
    """Returns ``Client(wal)``. This was its name before clients could use HTTP."""
    return Client(wal)
