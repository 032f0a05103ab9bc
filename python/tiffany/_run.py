"""Running programs."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar

from tiffany import _core

_T = TypeVar("_T")


def run(
    program: Generator[Any, Any, _T] | Coroutine[Any, Any, _T] | _core.Program[_T],
    *,
    env: Mapping[str, Any] | None = None,
    handlers: Sequence[_core._Handler] | None = None,
    name: str | None = None,
    end: Literal["all", "root"] = "all",
    limits: Mapping[str, Any] | None = None,
    cancel_grace: float | timedelta | None = None,
    policy: Literal["fifo", "priority", "dependency"] = "fifo",
    threads: int = 4,
) -> _T:
    """Runs a program to the end of its run, and gives its value.

    >>> import tiffany
    >>> async def main():
    ...     return await tiffany.ask("greeting")
    >>> tiffany.run(main(), env={"greeting": "hello"})
    'hello'

    ``env`` is what all tasks can ``Ask`` for. ``handlers`` see the calls of all tasks, the first one first. A run ends with
    ``"all"`` of its tasks, or with its ``"root"``, and then the rest are cancelled. ``limits`` may have ``max_tasks``,
    ``max_calls``, ``max_time`` and ``max_cost``. A task that is cancelled may clean up for ``cancel_grace`` seconds. ``policy``
    says who of those that are ready goes first, and ``threads`` how many there are for ``Blocking``.
    """
    runtime = _core.Runtime(
        {
            "env": None if env is None else dict(env),
            "handlers": None if handlers is None else list(handlers),
            "name": name,
            "end": end,
            "limits": None if limits is None else dict(limits),
            "cancel_grace": cancel_grace,
            "policy": policy,
            "threads": threads,
        }
    )
    try:
        return runtime.run(program)
    finally:
        runtime.close()
