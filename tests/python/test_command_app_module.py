"""``--app package.module:name``: the code of runs comes from a module instead of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_kit import Home

SERVICE = """
import tiffany
from tiffany import AsyncRuntime, receive_message, step, workflow

@step
def price(item):
    return len(item)

@workflow
async def order(item):
    cents = await price(item)
    return cents + await receive_message("tip")

@workflow
async def shown():
    return await tiffany.calls.ask("shop")

runtime = AsyncRuntime(wal="elsewhere", env={"shop": "corner"})
settings = {"env": {"shop": "mall"}}
number = 7
"""

START = """
import tiffany
from shop.service import order
with tiffany.Runtime(wal="wal") as runtime:
    run = runtime.submit(order, "tea", id="order-1")
    runtime.flush()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("shop/__init__.py", "")
    home.write("shop/service.py", SERVICE)
    home.write("start.py", START)
    return home


def test_runs_of_a_package_continue_with_its_module(home: Home) -> None:
    with home.python("start.py") as started:
        assert started.end().code == 0
    app = ("--app", "shop.service", "--dir", "wal")
    home.run(*app, "send", "order-1", "tip", "2").ok()
    out = home.run(*app, "resume", "--all").ok()
    assert "1 completed" in out
    outcome = json.loads(home.run(*app, "show", "order-1", "--json").ok())["outcome"]
    assert outcome["value"] == 5
    # A test of the run takes its code from the module too.
    out = home.run(*app, "replay", "order-1", "--capture", "tests").ok()
    assert 'replay(app="shop.service")' in (home.path / "tests/test_order_1.py").read_text(), out


@pytest.mark.parametrize(
    ("name", "shop"), [("shop.service:runtime", "corner"), ("shop.service:settings", "mall")]
)
def test_a_name_is_where_the_settings_are(home: Home, name: str, shop: str) -> None:
    out = home.run(
        *("--app", name, "--dir", "wal", "submit", "shop.service:shown", "--wait", "--json")
    ).ok()
    assert shop in out
    assert not (home.path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("app", "code", "why"),
    [
        ("shop.nothing", "TFY0074", "ModuleNotFoundError"),
        ("nowhere.at_all", "TFY0070", "neither a file 'nowhere.at_all' nor a module"),
        ("shop.service:nobody", "TFY0071", "has no `nobody`"),
        ("shop.service:number", "TFY0071", "is a `int`"),
        ("nowhere.py", "TFY0070", "the file 'nowhere.py' cannot be read"),
    ],
)
def test_what_is_not_there_is_named(home: Home, app: str, code: str, why: str) -> None:
    ended = home.run("--app", app, "--dir", "wal", "resume", "--all")
    assert ended.code != 0
    assert code in ended.err
    assert why in ended.err
