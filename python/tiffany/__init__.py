"""Durable coroutines: tasks that survive crashes and restarts.

A task is a generator or an ``async def`` coroutine. It yields or awaits calls to the scheduler:

>>> import tiffany
>>> from tiffany.calls import Gather, Sleep, Spawn
>>> def worker(n):
...     yield Sleep(0.001)
...     return n * n
>>> def main():
...     tasks = []
...     for n in range(3):
...         tasks.append((yield Spawn(worker(n))))
...     return (yield Gather(tasks))
>>> tiffany.run(main())
[0, 1, 4]

Every call also has a lower-case name, which reads better after ``await``. The common ones are here,
and all of them are in `tiffany.calls`:

>>> from tiffany import gather, sleep, spawn
>>> async def polite(n):
...     await sleep(0.001)
...     return n * n
>>> async def crowd():
...     return await gather([await spawn(polite(n)) for n in range(3)])
>>> tiffany.run(crowd())
[0, 1, 4]
"""

try:
    from tiffany import _core as _core
except ImportError as error:
    if "subinterpreter" not in str(error):
        raise
    from tiffany.errors import SubinterpreterError as _SubinterpreterError

    raise _SubinterpreterError(
        "tiffany was imported in a sub-interpreter [TFY0049]; "
        "import it in the main interpreter, and use processes for more processors"
    ) from error

import typing as _typing

from tiffany._aio.arun import arun
from tiffany._core import __version__
from tiffany.calls import (
    Err,
    Ok,
    add_tags,
    aio,
    approve,
    cancel,
    complete_by_uuid,
    continue_as,
    create_channel,
    create_external_promise,
    create_group,
    create_mutex,
    create_semaphore,
    gather,
    gather_settled,
    in_process,
    in_thread,
    log,
    new_uuid,
    now,
    output,
    patched,
    progress,
    race,
    random,
    receive_message,
    remove_tags,
    send_message,
    set_attributes,
    sleep,
    spawn,
    stage,
    timeout,
    wait,
    yield_now,
)
from tiffany.durable import (
    AsyncRuntime,
    Backoff,
    Done,
    Queue,
    Runtime,
    Saga,
    attempt,
    run,
    state_machine,
    step,
    workflow,
)
from tiffany.errors import Cancelled, TiffanyError

if _typing.TYPE_CHECKING:
    # Type checkers accept the old names too, all of which are in these modules.
    from tiffany.calls import *  # noqa: F403
    from tiffany.client import AsyncClient, Client, connect
    from tiffany.durable import *  # noqa: F403
    from tiffany.durable import StateMachine as _StateMachine
    from tiffany.errors import *  # noqa: F403

    Agent = _StateMachine
    Connection = Client
    agent = state_machine
else:

    def __getattr__(name: str) -> object:
        if name in ("AsyncClient", "Client", "connect"):
            # Programs without a client do not pay for it.
            from tiffany import client

            return getattr(client, name)
        from tiffany._old_names import found

        return found(name)


__all__ = [
    "AsyncClient",
    "AsyncRuntime",
    "Backoff",
    "Cancelled",
    "Client",
    "Done",
    "Err",
    "Ok",
    "Queue",
    "Runtime",
    "Saga",
    "TiffanyError",
    "__version__",
    "add_tags",
    "aio",
    "approve",
    "arun",
    "attempt",
    "cancel",
    "complete_by_uuid",
    "connect",
    "continue_as",
    "create_channel",
    "create_external_promise",
    "create_group",
    "create_mutex",
    "create_semaphore",
    "gather",
    "gather_settled",
    "in_process",
    "in_thread",
    "log",
    "new_uuid",
    "now",
    "output",
    "patched",
    "progress",
    "race",
    "random",
    "receive_message",
    "remove_tags",
    "run",
    "send_message",
    "set_attributes",
    "sleep",
    "spawn",
    "stage",
    "state_machine",
    "step",
    "timeout",
    "wait",
    "workflow",
    "yield_now",
]
