"""A durable program that begins anew again and again, to be killed at any moment: a step in each generation. Arguments: the directory, and
how many generations there are."""

from __future__ import annotations

import sys
from pathlib import Path

import tiffany
from tiffany import attempt, continue_as, step, workflow

sys.path.insert(0, str(Path(__file__).parents[1]))
from durable_kit import Ledger

HOME, UNTIL = Path(sys.argv[1]), int(sys.argv[2])
LEDGER = Ledger(HOME / "ledger")


@step
def add(number: int, total: int) -> int:
    LEDGER.write(f"{number} {attempt().key}")
    return total + number


@workflow(name="adder")
async def adder(number: int, *, total: int = 0) -> int:
    total = await add(number, total)
    if number == UNTIL:
        return total
    await continue_as(number + 1, total=total)


if __name__ == "__main__":
    print(tiffany.run(adder(1), wal=HOME / "wal", id="adder-1"))
