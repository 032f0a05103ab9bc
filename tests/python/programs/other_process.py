"""A durable run whose promise another process settles, by its UUID and through the directory alone. Arguments: the start method of that
process, the directory."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Generator
from typing import Any

import tiffany
from tiffany import complete_by_uuid, step, workflow
from tiffany.calls import CreateExternalPromise, Wait


def settle(wal: str, uuid: str, answers: Any) -> None:
    """What the other process does."""
    first = complete_by_uuid(uuid, {"approved": True, "by": ("somebody", "else")}, wal=wal)
    second = complete_by_uuid(uuid, "too late", wal=wal)
    answers.put((first, second))


@step
def ask_elsewhere(method: str, wal: str, uuid: str) -> tuple[bool, bool]:
    context: Any = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=settle, args=(wal, uuid, answers))
    process.start()
    said: tuple[bool, bool] = answers.get(timeout=60)
    process.join(60)
    return said


@workflow
def approval(method: str, wal: str) -> Generator[Any, Any, Any]:
    promise = yield CreateExternalPromise()
    said = yield ask_elsewhere(method, wal, promise.uuid)
    return said, (yield Wait(promise.future))


if __name__ == "__main__":
    method, wal = sys.argv[1:]
    print(tiffany.run(approval(method, wal), wal=wal, id="approval-1"))
