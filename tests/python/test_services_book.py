"""The programs of the book's page on web services, as they stand there."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import httpx
import pytest
from durable_kit import wait_for
from service_kit import Daemon, Server

PAGE = Path(__file__).parents[2] / "docs" / "src" / "python-services.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
SHOP, WORKER, TEST = BLOCKS


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_an_order_survives_the_server(home: Path) -> None:
    server = Server("shop:app", home, home, ready="/orders/0")

    async def first() -> None:
        await server.ready()
        async with httpx.AsyncClient(base_url=server.url) as client:
            answer = await client.put("/orders/17", params={"item": "tea"})
            assert (answer.status_code, answer.json()) == (202, {"id": "17", "state": "live"})
            assert (await client.get("/orders/16")).status_code == 404

    async def second() -> None:
        await server.ready()
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
            again = await client.put("/orders/17", params={"item": "tea"})
            assert again.json()["state"] == "live"
            assert (await client.get("/orders/17/result")).json() == "tea: receipt for 1200"
            await client.put("/orders/18", params={"item": "unicorn"})
            none = await client.get("/orders/18/result")
            assert (none.status_code, none.json()) == (410, {"detail": "no unicorn left"})
            assert (await client.get("/orders/18")).json()["state"] == "failed"
            # What the page says about other arguments.
            other = await client.put("/orders/17", params={"item": "milk"})
            assert other.status_code == 500
            wait_for(lambda: "[TFY0037]" in server.log.read_text())

    try:
        asyncio.run(first())
        log = home / "orders" / "wal"
        wait_for(
            lambda: any('"receipt for 1200"' in file.read_text() for file in log.glob("*.wal"))
        )
        server.kill()
        server.start()
        asyncio.run(second())
        assert server.log.read_text().count("charging 1200 cents") == 1
        server.end()
    finally:
        server.kill()


def test_two_workers_cannot_own_the_directory(home: Path) -> None:
    first = Server("shop:app", home, home, ready="/orders/0")
    try:
        asyncio.run(first.ready())
    except BaseException:
        first.kill()
        raise
    second = Server("shop:app", home, home, ready="/orders/0")
    try:
        pid = first.process.pid
        second.process.wait(40)
        assert re.search(
            rf"in use by process {pid}\b.* \[TFY0101\]; reach its", second.log.read_text()
        )
    finally:
        first.kill()
        second.kill()


def test_the_workers_are_clients_of_the_daemon(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = home / "orders.py"
    orders.write_text(SHOP.partition("runtime = ")[0])
    (home / "worker.py").write_text(WORKER)
    daemon = Daemon("orders", home, home)
    monkeypatch.setenv("TIFFANY_URL", daemon.url)
    workers = Server("worker:app", home, home, "--workers", "2", ready="/openapi.json")

    async def main() -> None:
        await daemon.ready()
        await workers.ready()
        async with httpx.AsyncClient(base_url=workers.url, timeout=30) as client:
            placed = [client.put(f"/orders/{n}", params={"item": "tea"}) for n in range(8)]
            answers = asyncio.ensure_future(asyncio.gather(*placed))
            await asyncio.sleep(0.5)
            daemon.kill()
            daemon.start()
            assert [one.json() for one in await answers] == ["tea: receipt for 1200"] * 8
            none = await client.put("/orders/none", params={"item": "unicorn"})
            assert (none.status_code, none.json()) == (410, {"detail": "no unicorn left"})

    try:
        asyncio.run(main())
    finally:
        workers.kill()
        daemon.kill()


def test_the_test_of_the_page_passes(home: Path) -> None:
    imports = (
        "import shop\nfrom fastapi.testclient import TestClient\nfrom tiffany import AsyncRuntime\n"
    )
    (home / "test_shop.py").write_text(imports + "\n\n" + textwrap.dedent(TEST))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
    done = subprocess.run([*command, "test_shop.py"], cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
