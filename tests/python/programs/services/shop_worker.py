"""A worker of a FastAPI service: a client of the daemon that owns the runs. Environment: ``TIFFANY_URL``, the address of the
daemon.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    limits = httpx.Limits(max_connections=1000)
    url = os.environ["TIFFANY_URL"]
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        app.state.daemon = client
        yield


app = FastAPI(lifespan=lifespan)


async def ask(method: str, path: str, **options: Any) -> dict[str, Any]:
    """Sends a request to the daemon, and tries again while the daemon is away."""
    while True:
        try:
            answer = await app.state.daemon.request(method, path, **options)
        except httpx.TransportError:
            await asyncio.sleep(0.05)
            continue
        if answer.status_code < 500:
            answer.raise_for_status()
            return dict(answer.json())
        await asyncio.sleep(0.05)


@app.post("/orders/{order}")
async def place(order: str) -> Any:
    given = {"function": "fulfil", "id": order, "input": {"order": order}}
    run = (await ask("POST", "/api/v1/runs", json=given))["uuid"]
    while True:
        detail = await ask("GET", f"/api/v1/runs/{run}", params={"wait": 30})
        if detail["state"] == "completed":
            return detail["value"]
        assert detail["state"] in ("live", "ending"), detail


@app.get("/ready")
async def ready() -> int:
    """Returns the number of this worker's process."""
    return os.getpid()
