"""A process that has a log and serves those who ask, until it is told to stop. Arguments: the directory."""

from __future__ import annotations

import sys
from typing import Any

from tiffany import Runtime, workflow
from tiffany.calls import ReceiveMessage
from tiffany.durable import on_question


@workflow(name="shop")
async def shop(name: str) -> Any:
    items: list[Any] = []
    on_question("items", lambda: items)
    while True:
        items.append(await ReceiveMessage("item"))


@workflow(name="stop")
def stop() -> Any:
    yield ReceiveMessage("stop")
    return "stopped"


if __name__ == "__main__":
    with Runtime(wal=sys.argv[1]) as runtime:
        run = runtime.submit(stop, id="stop-1")
        runtime.flush()
        print("ready", flush=True)
        print(runtime.wait(run))
