"""A run of a state machine, to be killed at any moment: a step in each state, and a snapshot every few records. Arguments: the directory, and how far it
counts."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiffany import Done, Runtime, attempt, state_machine, step

sys.path.insert(0, str(Path(__file__).parents[1]))
from durable_kit import Ledger

HOME, UNTIL = Path(sys.argv[1]), int(sys.argv[2])
LEDGER = Ledger(HOME / "ledger")


@step
def add(number: int, total: int) -> int:
    LEDGER.write(f"{number} {attempt().key}")
    return total + number


@state_machine(name="adder")
@dataclass
class Adder:
    until: int
    number: int = 1
    total: int = 0

    def wants(self) -> Any:
        return Done(self.total) if self.number > self.until else add(self.number, self.total)

    def take(self, total: int) -> None:
        self.number, self.total = self.number + 1, total


if __name__ == "__main__":
    with Runtime(wal=HOME / "wal", snapshot_every=20) as runtime:
        print(runtime.wait(runtime.submit(Adder, UNTIL, id="adder-1")))
