"""`Runtime`: runs programs on the thread that made it, durable ones too."""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import uuid as _uuid
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar, TypeVarTuple, Unpack, overload

from tiffany import _arguments, _control, _core, _retention, _workflows
from tiffany._activity import Subscription
from tiffany._agents import Agent
from tiffany._approvals import Approval, OpenApproval
from tiffany._arguments import bad, check_no_running_loop, close_unbegun, known_names_only
from tiffany._control import _NOTHING, Connection
from tiffany._records import Chunk, Doubt, Paused, Queue, Run, RunLike, doubt, paused_run
from tiffany._retention import Collected, Compacted, Pruned, Retention
from tiffany.metrics import Metrics, _read

atexit.register(_core._leave)

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
Program = Generator[Any, Any, _T] | Coroutine[Any, Any, _T]


class Runtime:
    """Runs programs on this thread. With ``wal`` it has a log in that directory, and durable runs: those that are there and
    unfinished go on when it is made. Close it, best by ``with``.

    ``workflows`` are functions that runs can be started from, besides those decorated with ``@workflow``; ``queues`` are those that
    steps can stand in, as `Queue` or as a number of steps at once; ``on_chunk`` is called with what steps show of their work;
    ``record`` is ``"every"`` call or only the ``"outward"`` ones, which is enough to bring a run back. After ``snapshot_every`` records the log of a run of
    state machines begins anew (see `agent`); 0 is never. ``retention`` are rules about runs that are over, which are looked at every ``retention_every`` seconds (see
    `tiffany.retention`). ``redact`` are rules by which secrets are taken out of everything that is written, such as ``"field password"``, ``r"pattern sk-\\w+"`` or
    ``"env STRIPE_KEY"``; see the book's chapter "Redaction".

    >>> import tempfile
    >>> from tiffany import step, workflow
    >>> @step
    ... def add(a, b):
    ...     return a + b
    >>> @workflow
    ... def sum_up(*numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         total = yield add(total, number)
    ...     return total
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal) as runtime:
    ...         run = runtime.submit(sum_up, 1, 2, 3, id="sum-1")
    ...         runtime.wait(run)
    6
    """

    @known_names_only("tiffany.Runtime()")
    def __init__(
        self,
        *,
        wal: str | os.PathLike[str] | None = None,
        workflows: Iterable[Callable[..., Any]] = (),
        queues: Mapping[str, Queue | int] | None = None,
        on_chunk: Callable[[Chunk], Any] | None = None,
        record: Literal["every", "outward"] = "every",
        snapshot_every: int = 10_000,
        retention: Iterable[Retention] = (),
        retention_every: float | timedelta = 60.0,
        redact: Iterable[str] = (),
        env: Mapping[str, Any] | None = None,
        handlers: Sequence[_core._Handler] | None = None,
        name: str | None = None,
        end: Literal["all", "root"] = "all",
        limits: Mapping[str, Any] | None = None,
        run_limits: Mapping[str, Any] | None = None,
        cancel_grace: float | timedelta | None = None,
        policy: Literal["fifo", "priority", "dependency"] = "fifo",
        threads: int = 4,
        step_slots: int = 1024,
        clock: Literal["system", "virtual"] = "system",
    ) -> None:
        self._functions = _workflows.Functions(workflows)
        # Programs without asyncio do not pay for it.
        shared = sys.modules.get("tiffany._shared")
        if shared is not None and wal is not None:
            shared.close_left(wal)
        self._core = _core.Runtime(
            settings(
                self._functions,
                wal=wal,
                queues=queues,
                on_chunk=on_chunk,
                record=record,
                snapshot_every=snapshot_every,
                retention=retention,
                retention_every=retention_every,
                redact=redact,
                env=env,
                handlers=handlers,
                name=name,
                end=end,
                limits=limits,
                run_limits=run_limits,
                cancel_grace=cancel_grace,
                policy=policy,
                threads=threads,
                step_slots=step_slots,
                clock=clock,
            )
        )

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def activity(
        self,
        run: RunLike | int | None = None,
        *,
        from_seq: int | None = None,
        every_turn: bool = False,
        ghosts: bool = True,
    ) -> Subscription:
        """What runs are doing, from now on; ``from_seq``: from this event on, as far as it is still known (0: all of them). Of one run, by what `submit` gave or by
        the number of one without an id, or of all. ``every_turn`` adds who has the turn, waits and is woken. Make it here, and read it on another
        thread or under asyncio.

        >>> from tiffany import progress
        >>> def main():
        ...     yield progress(1, 2, "half of it")
        >>> with Runtime() as runtime:
        ...     with runtime.activity() as events:
        ...         runtime.run(main())
        ...         next(event.message for event in events if event.stage == "Progress")
        'half of it'
        """
        return Subscription(self._core.activity(run, from_seq, every_turn, ghosts))

    def close(self) -> None:
        """Ends it. Durable runs that are not over stay in the log, and go on with the next runtime that has it."""
        self._core.close()

    def run(self, program: Program[_T] | _core.Program[_T], *, id: str | None = None) -> _T:
        """Runs a program to the end of its run, and gives its value. With an id the run is durable: it is started, or goes on if
        there is one of this id, or if it is over its outcome is given at once."""
        try:
            check_no_running_loop("`Runtime.run`")
            if id is None:
                return self._core.run(program)
            value: _T = self._core.wait(self._begun(program, id))
            return value
        except BaseException:
            # If it was refused, it is nobody's.
            close_unbegun(program)
            raise

    def _begun(self, program: Any, id: str) -> Run[Any]:
        """A durable run of a program that was not started."""
        name, function, given = _workflows.of_program(program)
        # It is not run itself: the run has one of its own, made of what is written down.
        program.close()
        self._functions.add(name, function)
        return self._started(name, id, _workflows.encoded(name, given))

    @overload
    def submit(
        self, workflow: Callable[[Unpack[_Ts]], Program[_T]], /, *args: *_Ts, id: str
    ) -> Run[_T]: ...
    @overload
    def submit(self, workflow: Program[_T], /, *, id: str) -> Run[_T]: ...
    @overload
    def submit(self, workflow: type[Agent], /, *args: Any, id: str, **kwargs: Any) -> Run[Any]: ...
    @overload
    def submit(self, workflow: str, /, *args: Any, id: str, **kwargs: Any) -> Run[Any]: ...
    # The checker does not see that `Any` is all of them.
    def submit(self, workflow: Any, /, *args: Any, id: str, **kwargs: Any) -> Run[Any]:  # type: ignore[misc]
        """Starts a durable run of a workflow under an id of one's own. If there is one of that id, with the same function and
        arguments, this is that run. It is safe when the log has it: `flush` waits for that, as does `wait`.

        The workflow is a function and its arguments, or a program: ``submit(order, "tea", id="order-1")`` or
        ``submit(order("tea"), id="order-1")``. A type checker looks at the arguments of both; arguments by name it knows in the second alone.
        """
        if inspect.isgenerator(workflow) or inspect.iscoroutine(workflow):
            if args or kwargs:
                raise bad(
                    "a program has its arguments already",
                    "give the function and its arguments, or the program alone",
                )
            return self._begun(workflow, id)
        name, given = _control.started(workflow, args, kwargs)
        if not isinstance(workflow, str):
            self._functions.add(name, workflow)
        return self._started(name, id, given)

    def _started(self, name: str, id: str, given: str) -> Run[Any]:
        if not isinstance(id, str):
            raise bad(f"the id of a run is a text, not {id!r}")
        return Run(id, _uuid.UUID(self._core.submit(name, id, given)))

    @overload
    def wait(self, run: Run[_T]) -> _T: ...
    @overload
    def wait(self, run: _uuid.UUID | str) -> Any: ...
    def wait(self, run: RunLike) -> Any:
        """Drives all runs until the outcome of this one is fixed and safe in the log, and gives its value. After a failure there may be tasks left
        that are being cancelled: they continue while this runtime is driven."""
        check_no_running_loop("`Runtime.wait`")
        return self._core.wait(run)

    def send(self, run: RunLike, name: str, value: Any) -> None:
        """Sends a message to a durable run, which takes it with `ReceiveMessage`. `flush` waits until it is safe."""
        self._core.send(run, name, value)

    def cancel(self, run: RunLike) -> None:
        """Cancels a durable run."""
        self._core.cancel(run)

    def hold(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Holds a run: it gets no turns until `release`. Steps that are under way come to their end and are recorded.
        ``by`` is the person who holds it, this process's user unless it is given."""
        self._core.hold(run, _arguments.user(by), why)

    def release(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Lets a run continue that a person or a limit holds. What a limit allows it is doubled."""
        self._core.release(run, _arguments.user(by), why)

    def query(self, run: RunLike, name: str, *args: Any, **kwargs: Any) -> Any:
        """Asks a durable run, which answers by `on_question`, once it has done what it can do now. Drives all runs meanwhile."""
        check_no_running_loop(
            "`Runtime.query`",
            "let `tiffany.arun(...)` drive the runs, and ask with `tiffany.connect(...)` on another thread",
        )
        return self._core.query(run, name, _control.question(args, kwargs))

    @overload
    def fork(
        self,
        run: Run[_T],
        at: int,
        *,
        reply: Any = ...,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> Run[_T]: ...
    @overload
    def fork(
        self,
        run: _uuid.UUID | str,
        at: int,
        *,
        reply: Any = ...,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> Run[Any]: ...
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
    ) -> Run[Any]:
        """Forks a durable run at a record: a new run begins with all that the other one had up to there, and goes its own way.

        With ``reply`` the answer in that record is this instead, or with ``fail`` an error. An answer must have the shape of the one that is
        there, unless it is to be taken ``as_is``. Where the parent has an answer to the same call, an effect of the fork is given that;
        others are refused, unless ``allow`` has their name, or ``"*"``: then the fork is paused until it is allowed by `allow`. The fork has the ``id``
        that it is given, or its parent's with the number of the record.
        """
        its_id, uuid = self._core.fork(run, at, _control.forked(reply, fail, as_is, allow, id))
        return Run(its_id, _uuid.UUID(uuid))

    def allow(self, run: RunLike, *names: str) -> None:
        """Lets a fork do effects of these names, ``"*"`` for all. What it was paused for and is allowed now begins."""
        self._core.allow(run, list(names))

    def snapshot(self, run: RunLike) -> None:
        """Lets the log of a run of state machines begin anew with what they are, now and not only every so many records. Drives all runs until none can go on by
        itself."""
        self._core.snapshot(run)

    def flush(self) -> None:
        """Waits until all that was asked for so far is safe in the log. Drives all runs meanwhile."""
        self._core.flush()

    def is_finished(self, run: RunLike) -> bool:
        """Whether a durable run is over, and its end safe in the log."""
        return bool(self._core.is_finished(run))

    def paused(self) -> list[Paused]:
        """The runs of the log that cannot go on, and why."""
        return [paused_run(parts) for parts in self._core.paused()]

    def metrics(self) -> Metrics:
        """What it has counted and measured so far. The book's chapter "Metrics" says what each one means."""
        return _read(self._core.metrics())

    def doubts(self) -> list[Doubt]:
        """Steps that must not be done twice and were cut off, and wait for a person to decide."""
        return [doubt(parts) for parts in self._core.doubts()]

    def decide(
        self, key: str, *, done: Any = _NOTHING, failed: str | None = None, again: bool = False
    ) -> None:
        """Decides on a step in doubt, by its key: it is done, with this result; it failed; or it is done again."""
        self._core.decide(key, *_control.decision(done, failed, again))

    def approvals(self) -> list[OpenApproval]:
        """The questions that wait for a person, of all runs. They are asked by `Approve`."""
        return list(self._core.approvals())

    def approve(
        self,
        approval: str,
        choice: str | None = None,
        *,
        by: str | None = None,
        why: str | None = None,
    ) -> Approval:
        """Decides such a question, by its id: with the first of two choices, or with the one that is named. The first answer holds."""
        return self._core.resolve(approval, True, choice, by, why)

    def reject(self, approval: str, *, by: str | None = None, why: str | None = None) -> Approval:
        """The same with the last of the choices, which is the rejection."""
        return self._core.resolve(approval, False, None, by, why)

    def remove(self, run: RunLike) -> None:
        """Removes a durable run that is over. Its id stays known: starting it again is a `RunRemovedError`, and runs nothing. `flush` waits until it is safe. Blobs that no
        run names any more go by `collect_blobs`, or with the next `prune` that removes something."""
        self._core.remove(run)

    def compact(self, *runs: RunLike) -> Compacted:
        """Compacts durable runs that are over: what they were started with and what came of them is left. Those that were compacted before, or are so short that
        nothing would be saved, stay as they are. Drives all runs until the log has it."""
        return _retention.compacted(self._core.compact(list(runs)))

    def prune(self, *rules: Retention, dry_run: bool = False) -> Pruned:
        """Does what rules about runs that are over say, now, and removes the blobs that no run names after that. With ``dry_run`` it only tells what it would do. Drives all
        runs until the log has it.

        >>> import tempfile
        >>> from tiffany import Retention, Runtime, workflow
        >>> @workflow(name="greet")
        ... def greet():
        ...     yield
        >>> with tempfile.TemporaryDirectory() as wal:
        ...     with Runtime(wal=wal) as runtime:
        ...         for day in ("mon", "tue", "wed"):
        ...             runtime.run(greet(), id=day)
        ...         pruned = runtime.prune(Retention(keep=1))
        ...     [(run.id, run.why) for run in pruned.removed]
        [('mon', 'count'), ('tue', 'count')]
        """
        return _retention.pruned(self._core.prune(_retention.some_rules(rules), dry_run))

    def collect_blobs(self) -> Collected:
        """Removes the blobs that no run names. `prune` does so by itself."""
        return Collected(*self._core.collect_blobs())

    @property
    def handle(self) -> Connection:
        """By this other threads reach the durable runs, while this thread waits for one."""
        return Connection(self._core.control())


def _rules(redact: Iterable[str]) -> list[str]:
    """Rules of redaction; what is in them is for Rust to read."""
    rules = _arguments.several("redact", redact)
    for rule in rules:
        if not isinstance(rule, str):
            raise bad(f"a rule of `redact` is a text, not of the type {type(rule).__name__}")
    return rules


def settings(
    functions: _workflows.Functions,
    *,
    wal: str | os.PathLike[str] | None = None,
    queues: Mapping[str, Queue | int] | None = None,
    on_chunk: Callable[[Chunk], Any] | None = None,
    record: Literal["every", "outward"] = "every",
    snapshot_every: int = 10_000,
    retention: Iterable[Retention] = (),
    retention_every: float | timedelta = 60.0,
    redact: Iterable[str] = (),
    env: Mapping[str, Any] | None = None,
    handlers: Sequence[_core._Handler] | None = None,
    name: str | None = None,
    end: Literal["all", "root"] = "all",
    limits: Mapping[str, Any] | None = None,
    run_limits: Mapping[str, Any] | None = None,
    cancel_grace: float | timedelta | None = None,
    policy: Literal["fifo", "priority", "dependency"] = "fifo",
    threads: int = 4,
    step_slots: int = 1024,
    clock: Literal["system", "virtual"] = "system",
) -> dict[str, Any]:
    """What a runtime of these functions is told, in the form that Rust takes."""
    if record not in ("every", "outward"):
        raise bad(f'a run records "every" call or the "outward" ones, not {record!r}')
    if on_chunk is not None and not callable(on_chunk):
        raise bad(f"`on_chunk` is a function that is given a Chunk, not {on_chunk!r}")
    kept = _retention.rules(_arguments.several("retention", retention))
    if kept and wal is None:
        raise bad("`retention` is about the runs of a log, and there is none", "give `wal` too")
    every = _arguments.seconds("`retention_every`", retention_every)
    if every < 0.001:
        raise bad(f"`retention_every` is 0.001 seconds or more, not {retention_every!r}")
    durable = {
        "wal": None if wal is None else _arguments.path("wal", wal),
        "functions": functions,
        "queues": {
            key: _queue(key, queue)
            for key, queue in _arguments.mapping("queues", queues or {}).items()
        },
        "on_chunk": on_chunk,
        "outward_only": record == "outward",
        "snapshot_every": snapshot_every,
        "retention": kept,
        "retention_every": every,
    }
    return {
        "redact": _rules(redact),
        "env": None if env is None else _arguments.mapping("env", env),
        "handlers": None if handlers is None else _arguments.several("handlers", handlers),
        "name": name,
        "end": end,
        "limits": None if limits is None else _arguments.mapping("limits", limits),
        "run_limits": None if run_limits is None else _arguments.mapping("run_limits", run_limits),
        "cancel_grace": cancel_grace,
        "policy": policy,
        "threads": threads,
        "step_slots": step_slots,
        "clock": clock,
        "durable": durable,
    }


def _queue(name: object, queue: Queue | int) -> tuple[int | None, tuple[int, float] | None]:
    if isinstance(queue, int) and not isinstance(queue, bool):
        queue = Queue(concurrency=queue)
    if not isinstance(queue, Queue):
        raise bad(
            f"the queue {name!r} is a Queue, or how many steps it allows at once, not {queue!r}"
        )
    rate = None if queue.starts is None else (queue.starts, float(queue.per))
    return queue.concurrency, rate
