"""Transactional steps in a database, in a process that dies between any two parts of an attempt. Arguments: the directory, how to reach
PostgreSQL or ``sqlite``, and the stage at which it dies, or ``-``."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import tiffany
from tiffany import step
from tiffany.durable import _transactions

HOME, HOW, STAGE = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
ROUNDS = 8


def connect() -> Any:
    if HOW == "sqlite":
        return sqlite3.connect(HOME / "bank.db")
    import psycopg

    return psycopg.connect(HOW)


@step(kind="transactional", db=connect, retries=3, backoff=0.01)
def take(db: Any, round: int) -> dict[str, Any]:
    time.sleep(0.03 if STAGE == "-" else 0)
    mark = "?" if HOW == "sqlite" else "%s"
    key = tiffany.attempt().key
    db.execute(f"INSERT INTO effect (round, key) VALUES ({mark}, {mark})", (round, key))
    left = db.execute("SELECT count(*) FROM effect").fetchone()[0]
    return {"round": round, "left": (left,)}


def main() -> Any:
    left = []
    for round in range(ROUNDS):
        left.append((yield take(round))["left"][0])
    return left


def die(stage: str, attempt: Any) -> None:
    # Once in each round, at its first attempt.
    if stage == STAGE and attempt.number == 1:
        os._exit(9)


if __name__ == "__main__":
    _transactions.on_stage = die
    print(tiffany.run(main(), wal=HOME / "wal", id="bank"))
