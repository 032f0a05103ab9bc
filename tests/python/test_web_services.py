"""Durable runs in web services: FastAPI, Starlette and uvicorn, with the lifespan that owns the runtime."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import tiffany
from durable_kit import HERE
from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request
from service_kit import Daemon, Server
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from tiffany import AsyncRuntime, receive_message, step, workflow
from tiffany.errors import NotStartedError, TiffanyError

CLIENTS = 64
SERVICES = HERE / "programs/services"


class OutOfStock(Exception):
    pass


@step(retries=0)
def price(item: str) -> int:
    if item == "nothing":
        raise OutOfStock(item)
    return len(item)


@workflow(name="web order")
async def order(item: str, count: int) -> int:
    return await price(item) * count


@workflow(name="web waiting")
async def waiting() -> Any:
    return await receive_message("go")


@workflow(name="web spinning")
async def spinning(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def shop(wal: Path) -> FastAPI:
    """A service that uses a runtime in the ways in which services do."""
    runtime = AsyncRuntime(wal=wal)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with runtime:
            yield

    app = FastAPI(lifespan=lifespan)

    def the_runtime() -> AsyncRuntime:
        return runtime

    Runtime = Depends(the_runtime)

    @app.exception_handler(TiffanyError)
    async def told(_: Request, error: TiffanyError) -> JSONResponse:
        return JSONResponse({"code": error.code, "error": str(error)}, 409)

    @app.post("/orders/{id}")
    async def place(
        id: str, item: str, count: int = 1, runtime: AsyncRuntime = Runtime
    ) -> dict[str, int]:
        run = await runtime.submit(order, item, count, id=id)
        try:
            return {"price": await run.result()}
        except OutOfStock as error:
            raise HTTPException(410, f"no {error}") from error

    @app.post("/waiting/{id}", status_code=202)
    async def start(id: str, background: BackgroundTasks, runtime: AsyncRuntime = Runtime) -> None:
        run = await runtime.submit(waiting, id=id)
        background.add_task(run.send, "go", "from the background")

    @app.get("/runs/{id}")
    async def state(id: str, runtime: AsyncRuntime = Runtime) -> str:
        return await (await runtime.get(id)).state()

    # Not `async`: FastAPI calls it on a thread.
    @app.post("/blocking/{id}")
    def blocking(id: str, runtime: AsyncRuntime = Runtime) -> str:
        return str(runtime.handle.submit(order, "tea", 1, id=id).uuid)

    @app.post("/spin")
    async def spin(seconds: float, runtime: AsyncRuntime = Runtime) -> None:
        await (await runtime.submit(spinning, seconds, id="spin")).result()

    @app.get("/ping")
    async def ping() -> str:
        return "pong"

    return app


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application on this event loop, within its lifespan."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
    ):
        yield client


def test_endpoints_of_fastapi_run_workflows(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(shop(tmp_path)) as client:
            answers = await asyncio.gather(
                *(
                    client.post(f"/orders/{n}", params={"item": "tea", "count": n})
                    for n in range(100)
                )
            )
            assert [answer.json() for answer in answers] == [{"price": 3 * n} for n in range(100)]
            again = await client.post("/orders/7", params={"item": "tea", "count": 7})
            assert again.json() == {"price": 21}
            other = await client.post("/orders/7", params={"item": "milk", "count": 7})
            assert (other.status_code, other.json()["code"]) == (409, "TFY0037")
            missing = await client.post("/orders/none", params={"item": "nothing"})
            assert (missing.status_code, missing.json()) == (410, {"detail": "no nothing"})
            assert (await client.get("/runs/none")).json() == "failed"
            assert (await client.get("/runs/nobody")).json()["code"] == "TFY0041"
            assert (await client.post("/waiting/w")).status_code == 202
            while (await client.get("/runs/w")).json() != "completed":
                await asyncio.sleep(0.001)
            assert (await client.post("/blocking/b")).status_code == 200
            assert (await client.get("/runs/b")).status_code == 200

    asyncio.run(main())


def test_a_service_without_its_lifespan_says_what_is_missing(tmp_path: Path) -> None:
    async def main() -> None:
        transport = httpx.ASGITransport(shop(tmp_path))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            answer = await client.post("/orders/1", params={"item": "tea"})
            assert answer.json()["code"] == NotStartedError.code
            assert "lifespan" in answer.json()["error"]

    asyncio.run(main())


@pytest.mark.alone
def test_requests_are_answered_while_a_workflow_spins(tmp_path: Path) -> None:
    async def main() -> float:
        async with serving(shop(tmp_path)) as client:
            spun = asyncio.ensure_future(client.post("/spin", params={"seconds": 1.0}))
            worst = 0.0
            while not spun.done():
                began = time.perf_counter()
                assert (await client.get("/ping")).json() == "pong"
                worst = max(worst, time.perf_counter() - began)
                await asyncio.sleep(0.001)
            assert spun.result().status_code == 200
            return worst

    assert asyncio.run(main()) < 0.5


def test_a_client_that_goes_away_does_not_cancel_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        app = shop(tmp_path)

        @app.post("/receive/{id}")
        async def receive(id: str, request: Request) -> Any:
            runtime: AsyncRuntime = request.app.state.runtime
            return await (await runtime.submit(waiting, id=id)).result()

        runtime = AsyncRuntime(wal=tmp_path / "other")
        app.state.runtime = runtime
        async with runtime, serving(app) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.post("/receive/r"), 0.1)
            run = await runtime.get("r")
            assert await run.state() == "live"
            await run.send("go", "now")
            assert (await client.post("/receive/r")).json() == "now"

    asyncio.run(main())


def test_starlette_has_a_runtime_for_each_lifespan(tmp_path: Path) -> None:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncRuntime(wal=tmp_path) as runtime:
            app.state.runtime = runtime
            yield

    async def place(request: Request) -> JSONResponse:
        run = await request.app.state.runtime.submit(
            order, request.path_params["item"], 2, id=request.query_params["id"]
        )
        return JSONResponse(await run.result())

    async def start(request: Request) -> JSONResponse:
        run = await request.app.state.runtime.submit(waiting, id="w")
        return JSONResponse(await run.state())

    async def send(request: Request) -> JSONResponse:
        run = await request.app.state.runtime.get("w")
        await run.send("go", "later")
        return JSONResponse(await run.result())

    routes = [
        Route("/orders/{item}", place, methods=["POST"]),
        Route("/start", start),
        Route("/send", send),
    ]
    app = Starlette(lifespan=lifespan, routes=routes)

    async def first() -> None:
        async with serving(app) as client:
            assert (await client.post("/orders/tea?id=1")).json() == 6
            assert (await client.get("/start")).json() == "live"

    async def second() -> None:
        """The next lifespan, on another event loop, continues the run."""
        async with serving(app) as client:
            assert (await client.post("/orders/tea?id=1")).json() == 6
            assert (await client.get("/send")).json() == "later"

    asyncio.run(first())
    asyncio.run(second())


# A real server, killed under load.


async def place_until_done(client: httpx.AsyncClient, url: str, id: str) -> list[str]:
    """Places an order, again and again if the server is away. The id makes it the same order."""
    while True:
        try:
            answer = await client.post(f"{url}/orders/{id}", timeout=60)
        except httpx.TransportError:
            await asyncio.sleep(0.02)
            continue
        if answer.status_code == 200:
            return list(answer.json())
        # It is ending, or was killed in between.
        assert answer.status_code == 500, answer.text


class Load:
    """64 clients that place orders, and a server that is killed meanwhile."""

    def __init__(self, url: str, ledger: Path, each: int) -> None:
        self.url, self.ledger, self.each = url, ledger, each
        self.receipts: dict[str, list[str]] = {}
        # What was acknowledged before each kill, and how long the ledger was then.
        self.before: list[tuple[set[str], int]] = []

    async def client(self, number: int) -> None:
        async with httpx.AsyncClient() as http:
            for n in range(self.each):
                id = f"order-{number}-{n}"
                self.receipts[id] = await place_until_done(http, self.url, id)

    async def run(self, kills: int, kill: Callable[[], Awaitable[None]]) -> None:
        clients = [asyncio.create_task(self.client(number)) for number in range(CLIENTS)]
        draw, total = random.Random(7), CLIENTS * self.each
        for number in range(kills):
            until = total * (number + draw.uniform(0.3, 0.9)) / (kills + 1)
            while len(self.receipts) < until:
                await asyncio.sleep(0.001)
            self.before.append((set(self.receipts), len(self.ledger.read_bytes())))
            await kill()
        await asyncio.gather(*clients)
        # The same orders once more are the same runs.
        async with httpx.AsyncClient() as http:
            for id in list(self.receipts)[:20]:
                assert await place_until_done(http, self.url, id) == self.receipts[id]

    def check(self) -> None:
        attempts: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
        for line in self.ledger.read_text().splitlines():
            order, what, key, number = line.split()
            attempts[order, what].append((key, int(number)))
        assert len(self.receipts) == CLIENTS * self.each
        assert len(attempts) == 3 * len(self.receipts), "a step is missing"
        repeated = 0
        for (order, what), done in attempts.items():
            keys = {key for key, _ in done}
            assert keys == {self.receipts[order][("charge", "pack", "ship").index(what)]}
            numbers = [number for _, number in done]
            assert numbers == sorted(set(numbers)), f"{order}: an attempt at {what} twice"
            repeated += len(done) - 1
        # Only what a kill cut off is attempted again, with its key: one step of each order under way.
        assert repeated <= len(self.before) * CLIENTS
        for acknowledged, size in self.before:
            later = self.ledger.read_bytes()[size:].decode().splitlines()
            assert not {line.split()[0] for line in later} & acknowledged


def test_no_step_is_lost_or_doubled_when_the_server_is_killed_under_load(tmp_path: Path) -> None:
    server = Server("shop_service:app", SERVICES, tmp_path)
    load = Load(server.url, tmp_path / "ledger", 8)

    async def kill() -> None:
        server.kill()
        server.start()
        await server.ready()

    async def main() -> None:
        await server.ready()
        await load.run(4, kill)

    try:
        asyncio.run(main())
        server.end()
    finally:
        server.kill()
    load.check()
    with tiffany.connect(tmp_path / "wal") as connection:
        assert connection.is_offline
        assert connection.status().live == 0


def test_several_workers_are_clients_of_one_owner_that_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon("shop_orders", SERVICES, tmp_path)
    monkeypatch.setenv("TIFFANY_URL", daemon.url)
    workers = Server("shop_worker:app", SERVICES, tmp_path, "--workers", "3")
    load = Load(workers.url, tmp_path / "ledger", 8)
    turns = itertools.count()
    killed: set[int] = set()

    async def kill() -> None:
        """The owner of the directory, and in between a worker."""
        if next(turns) % 2 == 0:
            daemon.kill()
            daemon.start()
            await daemon.ready()
            return
        async with httpx.AsyncClient() as http:
            pid = int((await http.get(f"{workers.url}/ready", timeout=60)).text)
        killed.add(pid)
        os.kill(pid, signal.SIGKILL)

    async def main() -> None:
        await daemon.ready()
        await workers.ready()
        await load.run(5, kill)

    try:
        asyncio.run(main())
        assert len(killed) == 2
        assert workers.process.pid not in killed
        workers.end()
        daemon.end()
    finally:
        workers.kill()
        daemon.kill()
    load.check()
