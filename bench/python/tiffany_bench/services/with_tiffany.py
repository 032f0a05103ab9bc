"""tiffany in a FastAPI service. All settings are defaults: steps are plain functions on the pool's
threads, and the answer is sent when the outcome of the run is on the disk.
"""

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from tiffany import AsyncRuntime, step, workflow

runtime = AsyncRuntime(wal=sys.argv[1])


@step
def add(number: int) -> int:
    return number + 1


@workflow(name="three")
async def three(number: int) -> int:
    for _ in range(3):
        number = await add(number)
    return number


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with runtime:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/runs/{id}")
async def place(id: str) -> int:
    run = await runtime.submit(three, 1, id=id)
    return await run.result()


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run([listener])
