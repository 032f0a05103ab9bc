"""`arun`: runs a program inside an asyncio event loop that is already running, on the loop's own
thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import TypeVar, Unpack

from tiffany import _attributes, _core
from tiffany._arguments import check_names, close_unbegun
from tiffany._attributes import Attribute, Deadline
from tiffany._settings import DEFAULTS, RuntimeSettings, shows_settings
from tiffany.durable._run import check_durable
from tiffany.durable._runtime import Runtime

_T = TypeVar("_T")


@shows_settings(RuntimeSettings)
async def arun(
    program: _core._Program[_T],
    *,
    id: str | None = None,
    tags: Iterable[str] = (),
    attributes: Mapping[str, Attribute] | None = None,
    deadline: Deadline = None,
    **settings: Unpack[RuntimeSettings],
) -> _T:
    """Runs a program inside the current asyncio event loop and returns its value.

    It takes the same settings as `run`, and the same tags, attributes and deadline. The program takes
    turns with everything else on the loop.

    If the coroutine is cancelled, the run is cancelled, and its tasks clean up first. A durable run
    is not cancelled: it stays in the log as it is, and continues when it is run again.

    Calls on the same directory share one runtime, which the first call opens and the last one
    closes, so any number of durable runs can be awaited at the same time. They need the same
    settings; only ``workflows`` may differ.

    >>> import asyncio
    >>> from tiffany import arun
    >>> from tiffany.calls import Aio, Sleep
    >>> def main():
    ...     yield Sleep(0.001)
    ...     return (yield Aio(asyncio.sleep(0.001, "from both")))
    >>> asyncio.run(arun(main()))
    'from both'
    """
    # Asyncio's event loop is already imported here; programs without asyncio don't import it.
    from tiffany._aio.guest import Guest
    from tiffany._aio.shared import guest_of

    try:
        check_names("tiffany.arun()", settings, ("id", *_attributes.OPTIONS, *DEFAULTS))
        wal = settings.get("wal")
        check_durable(wal, id)
        _attributes.check_durable(id, tags, attributes, deadline)
        value: _T
        if wal is None or id is None:
            with contextlib.closing(Guest(Runtime(**settings))) as guest:
                value = await guest.run(program)
        else:
            options = _attributes.given(program, tags, attributes, deadline)
            with guest_of(wal, settings) as guest:
                value = await guest.run_durable(program, id, options)
        return value
    except BaseException:
        close_unbegun(program)
        raise
