"""Clients of durable runs: of a directory, through the process that owns it, or of a daemon over
HTTP. `tiffany` has `Client` and `AsyncClient`; the types of what they return are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiffany._records import RunError, RunInfo
from tiffany.client._client import Client, Events, connect
from tiffany.client._events import Restarted
from tiffany.client._records import RunDetail, TaskInfo

if TYPE_CHECKING:
    from tiffany.client._async_client import AsyncClient, AsyncEvents
else:

    def __getattr__(name: str) -> object:
        if name in ("AsyncClient", "AsyncEvents"):
            # Programs without asyncio do not pay for it.
            from tiffany.client import _async_client

            return getattr(_async_client, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


__all__ = [
    "AsyncClient",
    "AsyncEvents",
    "Client",
    "Events",
    "Restarted",
    "RunDetail",
    "RunError",
    "RunInfo",
    "TaskInfo",
    "connect",
]
