"""`arun`: a program inside a loop of asyncio that runs already, on the loop's own thread."""

from __future__ import annotations

from typing import TypeVar, Unpack

from tiffany import _core
from tiffany._arguments import check_names, close_unbegun
from tiffany._run import check_durable
from tiffany._runtime import Runtime
from tiffany._settings import Settings

_T = TypeVar("_T")


async def arun(
    program: _core._Program[_T], *, id: str | None = None, **settings: Unpack[Settings]
) -> _T:
    """Runs a program to the end of its run, and gives its value, as `run` does and with the same settings; but inside the loop of
    asyncio that runs this coroutine, in turn with everything else there.

    Cancelled, it cancels the run, whose tasks clean up first. A durable run is not cancelled: it stays in the log as it is, and goes on
    when it is run again.

    >>> import asyncio
    >>> from tiffany import Aio, Sleep, arun
    >>> def main():
    ...     yield Sleep(0.001)
    ...     return (yield Aio(asyncio.sleep(0.001, "from both")))
    >>> asyncio.run(arun(main()))
    'from both'
    """
    # With its loop asyncio is there; programs without one do not pay for it.
    from tiffany._guest import Guest

    try:
        check_names("tiffany.arun()", settings, ("id", *Settings.__annotations__))
        check_durable(settings.get("wal"), id)
        with Runtime(**settings) as runtime:
            if id is None:
                runtime._core.start(program)
            else:
                runtime._core.attend(runtime._begun(program, id))
            value: _T = await Guest(runtime._core).outcome()
            return value
    except BaseException:
        close_unbegun(program)
        raise
