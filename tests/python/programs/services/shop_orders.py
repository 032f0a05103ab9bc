"""Orders of three steps, whose attempts are lines in a ledger. A daemon runs them, and the workers of a web service are its
clients. Environment: ``SHOP_HOME``, the directory of the ledger.
"""

from __future__ import annotations

import os
from pathlib import Path

import tiffany
from tiffany import step, workflow

HOME = Path(os.environ["SHOP_HOME"])


def note(order: str, what: str) -> str:
    """Writes an attempt into the ledger, and returns its key."""
    attempt = tiffany.attempt()
    line = f"{order} {what} {attempt.key} {attempt.number}\n"
    file = os.open(HOME / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)
    return attempt.key


@step
def charge(order: str) -> str:
    return note(order, "charge")


@step
async def pack(order: str) -> str:
    return note(order, "pack")


@step
def ship(order: str) -> str:
    return note(order, "ship")


@workflow(name="fulfil")
async def fulfil(order: str) -> list[str]:
    return [await charge(order), await pack(order), await ship(order)]
