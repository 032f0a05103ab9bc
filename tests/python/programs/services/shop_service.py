"""A FastAPI service whose orders are durable runs of three steps. Every attempt at a step is a line in a
ledger. Environment: ``SHOP_HOME``, the directory of the log and the ledger.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import tiffany
from fastapi import FastAPI
from tiffany import AsyncRuntime, step, workflow

HOME = Path(os.environ["SHOP_HOME"])


def note(order: str, what: str) -> str:
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
    await asyncio.sleep(0.001)
    return note(order, "pack")


@step
def ship(order: str) -> str:
    return note(order, "ship")


@workflow(name="fulfil")
async def fulfil(order: str) -> list[str]:
    return [await charge(order), await pack(order), await ship(order)]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncRuntime(wal=HOME / "wal") as runtime:
        app.state.runtime = runtime
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}")
async def place(order: str) -> list[str]:
    runtime: AsyncRuntime = app.state.runtime
    run = await runtime.submit(fulfil, order, id=order)
    return await run.result()


@app.get("/ready")
async def ready() -> dict[str, int]:
    runtime: AsyncRuntime = app.state.runtime
    return {"live": (await runtime.status()).live}
