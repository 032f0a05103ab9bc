"""Running programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar

from tiffany import _core
from tiffany._arguments import bad, check_no_running_loop, close_unbegun, known_names_only
from tiffany._records import Chunk, Queue
from tiffany.durable._runtime import Runtime

_T = TypeVar("_T")


def check_durable(wal: object, id: object) -> None:
    """Checks that a durable run has both a log and an id."""
    if (wal is None) != (id is None):
        missing, given = ("id", "wal") if id is None else ("wal", "id")
        raise bad(
            f"a durable run has both a log and an id, and {given} was given without {missing}"
        )


@known_names_only("tiffany.run()")
def run(
    program: Generator[Any, Any, _T] | Coroutine[Any, Any, _T] | _core.Program[_T],
    *,
    wal: str | os.PathLike[str] | None = None,
    id: str | None = None,
    workflows: Iterable[Callable[..., Any]] = (),
    queues: Mapping[str, Queue | int] | None = None,
    on_chunk: Callable[[Chunk], Any] | None = None,
    record: Literal["every", "outward"] = "every",
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
) -> _T:
    """Runs a program until its run has finished and returns its value.

    >>> import tiffany
    >>> async def main():
    ...     return await tiffany.calls.ask("greeting")
    >>> tiffany.run(main(), env={"greeting": "hello"})
    'hello'

    With ``wal`` and ``id`` the run is durable: it is recorded in the log in that directory under
    this id, and if the process is killed, the same call resumes it. ``workflows``, ``queues``,
    ``on_chunk`` and ``record`` apply to durable runs and have the same meaning as for `Runtime`.
    ``redact`` are rules that remove secrets from everything that is recorded, such as ``"field
    password"``.

    ``env`` is the environment that all tasks can read with ``Ask``. ``handlers`` see the calls of
    all tasks, the first handler first. A run ends with ``"all"`` of its tasks, or with its
    ``"root"``, in which case the remaining tasks are cancelled. A task that is cancelled may clean
    up for ``cancel_grace`` seconds.

    ``limits`` may have ``max_tasks``, ``max_calls``, ``max_time`` and ``max_cost``; exceeding one
    is an error. ``run_limits`` may have ``tasks``, ``calls``, ``records``, ``log_bytes``,
    ``memory_bytes``, ``messages``, ``message_bytes``, ``deaths`` and ``turn`` (seconds); a durable
    run that exceeds one is held.

    ``policy`` decides which of the ready tasks runs first. ``threads`` is the number of threads for
    ``Blocking``. ``step_slots`` limits how many steps may block a thread at the same time; the
    others wait for a slot. With the ``"virtual"`` clock no time passes: when no task is ready, the
    clock jumps to the next timer (see `tiffany.testing`).
    """
    try:
        check_no_running_loop("`tiffany.run`")
        check_durable(wal, id)
        runtime = Runtime(
            wal=wal,
            workflows=workflows,
            queues=queues,
            on_chunk=on_chunk,
            record=record,
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
    except BaseException:
        close_unbegun(program)
        raise
    with runtime:
        return runtime.run(program, id=id)
