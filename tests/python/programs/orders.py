"""A durable program to be killed at any moment: steps on threads and on asyncio, children, sleeps, a step that must not be
done twice. Arguments: the directory."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import tiffany
from tiffany import attempt, step, workflow
from tiffany.calls import Gather, Sleep, Spawn
from tiffany.errors import InDoubtError

sys.path.insert(0, str(Path(__file__).parents[1]))
from durable_kit import Ledger

HOME = Path(sys.argv[1])
LEDGER = Ledger(HOME / "ledger")
ORDERS, ITEMS = 6, 4


def done(what: str) -> None:
    LEDGER.write(f"{what} {attempt().key}")


@step(retries=3, backoff=0.005)
def pack(order: int, item: int) -> int:
    done(f"pack {order}.{item}")
    time.sleep(0.02)
    if item == 1 and attempt().number % 2:
        raise OSError("the box fell")
    return order * 100 + item


@step
async def ship(order: int, items: list[int]) -> dict[str, Any]:
    await asyncio.sleep(0.002)
    done(f"ship {order}")
    return {"order": order, "items": tuple(items)}


@step(kind="at_most_once")
def charge(order: int) -> int:
    LEDGER.write(f"charge {order}")
    return order


async def one(order: int) -> Any:
    items = [await pack(order, item) for item in range(ITEMS)]
    await Sleep(0.003)
    try:
        charged: int | None = await charge(order)
    except InDoubtError:
        charged = None
    return await ship(order, items), charged


@workflow(name="orders")
def main(count: int) -> Any:
    tasks = []
    for order in range(count):
        tasks.append((yield Spawn(one(order))))
    return (yield Gather(tasks))


if __name__ == "__main__":
    for shipped, charged in tiffany.run(main(ORDERS), wal=HOME / "wal", id="orders-1"):
        print(shipped["order"], list(shipped["items"]), charged)
