"""What a run can be told, for everything that runs programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

from tiffany import _core


class Settings(TypedDict, total=False):
    """What `tiffany.run` takes."""

    env: Mapping[str, Any] | None
    handlers: Sequence[_core._Handler] | None
    name: str | None
    end: Literal["all", "root"]
    limits: Mapping[str, Any] | None
    cancel_grace: float | timedelta | None
    policy: Literal["fifo", "priority", "dependency"]
    threads: int
    clock: Literal["system", "virtual"]


def settings(given: Settings) -> dict[str, Any]:
    """The same as the core takes it."""
    env, handlers, limits = given.get("env"), given.get("handlers"), given.get("limits")
    known = {
        "env": None if env is None else dict(env),
        "handlers": None if handlers is None else list(handlers),
        "name": given.get("name"),
        "end": given.get("end", "all"),
        "limits": None if limits is None else dict(limits),
        "cancel_grace": given.get("cancel_grace"),
        "policy": given.get("policy", "fifo"),
        "threads": given.get("threads", 4),
        "clock": given.get("clock", "system"),
    }
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"there is no setting `{unknown[0]}`; there are {', '.join(known)}")
    return known
