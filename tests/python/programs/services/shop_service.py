"""A FastAPI service that owns the runtime of its orders. Environment: ``SHOP_HOME``, the directory of the log and the ledger."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from shop_orders import fulfil
from tiffany import AsyncRuntime

HOME = Path(os.environ["SHOP_HOME"])


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
