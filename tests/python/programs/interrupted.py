"""A durable program that is interrupted by Ctrl-C, at a wait or in the middle of its code. Arguments: the directory, and which."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import tiffany
from tiffany import attempt, step
from tiffany.calls import Sleep

sys.path.insert(0, str(Path(__file__).parents[1]))
from durable_kit import Ledger

HOME, WHICH = Path(sys.argv[1]), sys.argv[2]
LEDGER = Ledger(HOME / "ledger")


@step
def first() -> int:
    LEDGER.write("first")
    return 1


@step
def last() -> int:
    return 2


@step
def stubborn() -> int:
    LEDGER.write("begun")
    while not attempt().is_given_up and attempt().number == 1:
        time.sleep(0.01)
    time.sleep(0.1)
    LEDGER.write("ended")
    return 1


def main() -> Any:
    try:
        one = yield first()
        print("ready", flush=True)
        if WHICH == "waiting":
            yield Sleep(1)
        if WHICH == "busy":
            while not (HOME / "go on").exists():
                pass
            yield Sleep(1)
        if WHICH == "step":
            yield stubborn()
        return one + (yield last())
    finally:
        LEDGER.write("finally")


if __name__ == "__main__":
    print(tiffany.run(main(), wal=HOME / "wal", id="a"))
