"""Running programs."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterable, Mapping
from typing import Any, TypeVar, Unpack

from tiffany import _attributes, _core
from tiffany._arguments import bad, check_no_running_loop, close_unbegun
from tiffany._attributes import Attribute, Deadline
from tiffany._settings import RuntimeSettings, takes_settings
from tiffany.durable._runtime import Runtime

_T = TypeVar("_T")


def check_durable(wal: object, id: object) -> None:
    """Checks that a durable run has both a log and an id."""
    if (wal is None) != (id is None):
        missing, given = ("id", "wal") if id is None else ("wal", "id")
        raise bad(
            f"a durable run has both a log and an id, and {given} was given without {missing}"
        )


@takes_settings("tiffany.run()")
def run(
    program: Generator[Any, Any, _T] | Coroutine[Any, Any, _T] | _core.Program[_T],
    *,
    id: str | None = None,
    tags: Iterable[str] = (),
    attributes: Mapping[str, Attribute] | None = None,
    deadline: Deadline = None,
    **settings: Unpack[RuntimeSettings],
) -> _T:
    """Runs a program until its run has finished and returns its value.

    >>> import tiffany
    >>> async def main():
    ...     return await tiffany.calls.ask("greeting")
    >>> tiffany.run(main(), env={"greeting": "hello"})
    'hello'

    With ``wal`` and ``id`` the run is durable: it is recorded in the log in that directory under
    this id, and if the process is killed, the same call resumes it. A new run has these tags and
    attributes, and fails if it has not ended at its deadline: a moment, or a time from its start.
    The settings are those of `Runtime`; `RuntimeSettings` describes all of them.
    """
    try:
        check_no_running_loop("`tiffany.run`")
        check_durable(settings.get("wal"), id)
        _attributes.check_durable(id, tags, attributes, deadline)
        runtime = Runtime(**settings)
    except BaseException:
        close_unbegun(program)
        raise
    with runtime:
        return runtime.run(program, id=id, tags=tags, attributes=attributes, deadline=deadline)
