"""The settings of runtimes and runs. Each setting is defined, typed, described and given its
default value here, and nowhere else; the functions that take settings get their signatures from
`takes_settings`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from tiffany import _core, _retention
from tiffany._arguments import bad, check_names, known_names_only, mapping, path, seconds, several
from tiffany._records import Chunk, Queue
from tiffany._retention import Retention

if TYPE_CHECKING:
    from tiffany.durable._workflows import Functions

_F = TypeVar("_F", bound=Callable[..., Any])


class RunSettings(TypedDict, total=False):
    """The settings of a run that is not durable. `RuntimeSettings` describes each of them."""

    env: Mapping[str, Any] | None
    handlers: Sequence[_core._Handler] | None
    name: str | None
    end: Literal["all", "root"]
    limits: Mapping[str, Any] | None
    run_limits: Mapping[str, Any] | None
    cancel_grace: float | timedelta | None
    policy: Literal["fifo", "priority", "dependency"]
    threads: int
    step_slots: int
    clock: Literal["system", "virtual"]


class ReplaySettings(RunSettings, total=False):
    """The settings for replaying the code of a durable run. `RuntimeSettings` describes each of
    them.
    """

    redact: Iterable[str]


class RuntimeSettings(ReplaySettings, total=False):
    """The settings that `tiffany.Runtime`, `tiffany.run` and `tiffany.arun` take as keyword
    arguments. Use it as ``**settings: Unpack[RuntimeSettings]`` to pass them on.

    For durable runs:

    - ``wal`` is the directory of the log. Without it, runs are not durable.
    - ``workflows`` are functions that runs can be started from, in addition to those decorated with
      ``@workflow``.
    - ``queues`` are the queues that steps can use, each a `Queue` or the number of steps that may
      run at once.
    - ``on_chunk`` is called with the partial results of steps.
    - ``record`` says which calls are recorded: ``"every"`` call, or only the ``"outward"`` ones,
      which is enough to resume a run.
    - ``snapshot_every`` is the number of records after which the log of a run of state machines
      starts again with a snapshot (see `state_machine`); 0 means never.
    - ``retention`` are rules about finished runs, which are applied every ``retention_every``
      seconds (see `tiffany.retention`).
    - ``redact`` are rules that remove secrets from everything that is recorded, such as ``"field
      password"``, ``r"pattern sk-\\w+"`` or ``"env STRIPE_KEY"``; see the chapter "Redaction" of
      the book.

    For all runs:

    - ``env`` is the environment, which all tasks can read with `Ask`.
    - ``handlers`` see the calls of all tasks, the first handler first.
    - ``name`` is the name of the root task in messages.
    - ``end`` says when a run ends: when ``"all"`` of its tasks have finished, or with its
      ``"root"``, in which case the remaining tasks are cancelled.
    - ``limits`` may have ``max_tasks``, ``max_calls``, ``max_time`` and ``max_cost``; exceeding one
      is an error.
    - ``run_limits`` may have ``tasks``, ``calls``, ``records``, ``log_bytes``, ``memory_bytes``,
      ``messages``, ``message_bytes``, ``deaths`` and ``turn`` (seconds); a durable run that exceeds
      one is held.
    - ``cancel_grace`` is the number of seconds that a cancelled task may take to clean up.
    - ``policy`` decides which of the ready tasks runs first.
    - ``threads`` is the number of threads for `Blocking`.
    - ``step_slots`` limits how many steps may block a thread at the same time; the others wait for
      a slot.
    - With the ``"virtual"`` ``clock`` no time passes: when no task is ready, the clock jumps to the
      next timer (see `tiffany.testing`).
    """

    wal: str | os.PathLike[str] | None
    workflows: Iterable[Callable[..., Any]]
    queues: Mapping[str, Queue | int] | None
    on_chunk: Callable[[Chunk], Any] | None
    record: Literal["every", "outward"]
    snapshot_every: int
    retention: Iterable[Retention]
    retention_every: float | timedelta


DEFAULTS: RuntimeSettings = {
    "wal": None,
    "workflows": (),
    "queues": None,
    "on_chunk": None,
    "record": "every",
    "snapshot_every": 10_000,
    "retention": (),
    "retention_every": 60.0,
    "redact": (),
    "env": None,
    "handlers": None,
    "name": None,
    "end": "all",
    "limits": None,
    "run_limits": None,
    "cancel_grace": None,
    "policy": "fifo",
    "threads": 4,
    "step_slots": 1024,
    "clock": "system",
}


def shows_settings(settings: type) -> Callable[[_F], _F]:
    """Gives a function with ``**settings`` a signature that has the single settings, with their
    types and defaults.

    >>> def start(program, **settings): ...
    >>> print(inspect.signature(shows_settings(ReplaySettings)(start)).parameters["threads"])
    threads: 'int' = 4
    """
    types = settings.__annotations__
    known = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=getattr(types[name], "__forward_arg__", types[name]),
        )
        for name, default in DEFAULTS.items()
        if name in types
    ]

    def of(function: _F) -> _F:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shown = signature.replace(parameters=[*own, *known])
        function.__signature__ = shown  # type: ignore[attr-defined]
        return function

    return of


def takes_settings(what: str) -> Callable[[_F], _F]:
    """Gives a function the signature of a function that takes the settings of a runtime, and makes
    it report keyword arguments with unknown names.
    """

    def of(function: _F) -> _F:
        checked: Any = known_names_only(what)(shows_settings(RuntimeSettings)(function))
        return checked  # type: ignore[no-any-return]

    return of


def core_settings(functions: Functions, given: RunSettings) -> dict[str, Any]:
    """Checks settings, adds the defaults, and returns them in the form that Rust takes."""
    check_names("a runtime", given, DEFAULTS)
    settings: RuntimeSettings = {**DEFAULTS, **given}
    return {
        "redact": _redaction_rules(settings["redact"]),
        "env": _optional_mapping("env", settings["env"]),
        "handlers": None
        if settings["handlers"] is None
        else several("handlers", settings["handlers"]),
        "name": settings["name"],
        "end": settings["end"],
        "limits": _optional_mapping("limits", settings["limits"]),
        "run_limits": _optional_mapping("run_limits", settings["run_limits"]),
        "cancel_grace": settings["cancel_grace"],
        "policy": settings["policy"],
        "threads": settings["threads"],
        "step_slots": settings["step_slots"],
        "clock": settings["clock"],
        "durable": _durable(functions, settings),
    }


def _durable(functions: Functions, settings: RuntimeSettings) -> dict[str, Any]:
    """Returns the settings of durable runs in the form that Rust takes."""
    wal, record, on_chunk = settings["wal"], settings["record"], settings["on_chunk"]
    if record not in ("every", "outward"):
        raise bad(f'a run records "every" call or the "outward" ones, not {record!r}')
    if on_chunk is not None and not callable(on_chunk):
        raise bad(f"`on_chunk` is a function that is given a Chunk, not {on_chunk!r}")
    rules = _retention.rules(several("retention", settings["retention"]))
    if rules and wal is None:
        raise bad("`retention` is about the runs of a log, and there is none", "give `wal` too")
    every = seconds("`retention_every`", settings["retention_every"])
    if every < 0.001:
        given = settings["retention_every"]
        raise bad(f"`retention_every` is 0.001 seconds or more, not {given!r}")
    queues = mapping("queues", settings["queues"] or {})
    return {
        "wal": None if wal is None else path("wal", wal),
        "functions": functions,
        "queues": {name: _queue(name, queue) for name, queue in queues.items()},
        "on_chunk": on_chunk,
        "outward_only": record == "outward",
        "snapshot_every": settings["snapshot_every"],
        "retention": rules,
        "retention_every": every,
    }


def _optional_mapping(name: str, given: Any) -> dict[Any, Any] | None:
    return None if given is None else mapping(name, given)


def _redaction_rules(given: Iterable[str]) -> list[str]:
    """Returns redaction rules as a list; Rust parses them."""
    rules = several("redact", given)
    for rule in rules:
        if not isinstance(rule, str):
            raise bad(f"a rule of `redact` is a text, not of the type {type(rule).__name__}")
    return rules


def _queue(name: object, queue: Queue | int) -> tuple[int | None, tuple[int, float] | None]:
    if isinstance(queue, int) and not isinstance(queue, bool):
        queue = Queue(concurrency=queue)
    if not isinstance(queue, Queue):
        raise bad(
            f"the queue {name!r} is a Queue, or how many steps it allows at once, not {queue!r}"
        )
    rate = None if queue.starts is None else (queue.starts, float(queue.per))
    return queue.concurrency, rate
