"""A worker of a FastAPI service: a client of the daemon that owns the runs. Environment: ``TIFFANY_URL``, the address of the
daemon, and ``SHOP_HOME``, which its workflows read.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from shop_orders import fulfil
from tiffany import AsyncClient


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncClient(os.environ["TIFFANY_URL"], retry=60) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}")
async def place(order: str) -> list[str]:
    client: AsyncClient = app.state.client
    return await client.result(await client.submit(fulfil, order, id=order))


@app.get("/ready")
async def ready() -> int:
    """Returns the number of this worker's process."""
    return os.getpid()
