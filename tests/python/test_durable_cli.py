"""The log of a Python program as the command line reads it, which knows nothing of Python."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tiffany import Runtime, step, workflow
from tiffany.calls import ReceiveMessage, Sleep
from tiffany.durable import on_question

ROOT = Path(__file__).parents[2]


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def binary() -> str:
    """The command line as the tests in Rust have it: built for an example of the workspace, its
    dependencies have the same features, and nothing is compiled again."""
    run("cargo", "build", "-q", "--workspace", "--bin", "tiffany", "--example", "orders")
    return str(ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/tiffany")


def cli(wal: Path, *args: str) -> list[Any]:
    """What the command prints, an object a line."""
    printed = run(binary(), "--dir", str(wal), "--json", *args)
    return [json.loads(line) for line in printed.splitlines()]


@step
def work(n: int) -> tuple[int, int]:
    return (n, n)


@workflow(name="cli-shop")
def shop(n: int) -> Any:
    items: list[Any] = []
    on_question("items", lambda: items)
    items.append((yield work(n)))
    items.append((yield ReceiveMessage("item")))
    return items


def nap() -> Any:
    yield Sleep(0.01)


def test_it_lists_shows_and_verifies_and_sends(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(shop, 1, id="shop-1")
        while runtime.query(run, "items") != [(1, 1)]:
            runtime.run(nap())
    (listed,) = cli(tmp_path, "ls")
    assert (listed["id"], listed["function"]) == ("shop-1", "cli-shop")
    (shown,) = cli(tmp_path, "show", "shop-1")
    assert shown["input"] == {"n": 1}
    records = cli(tmp_path, "log", "shop-1")
    made = [record for record in records if record.get("name") == "work"]
    assert made[0]["at"].startswith(f"{__file__}:")
    cli(tmp_path, "doctor", "--verify")
    cli(tmp_path, "send", "shop-1", "item", '{"$tuple":[2,2]}')
    with Runtime(wal=tmp_path) as runtime:
        # What comes from outside is plain JSON.
        assert runtime.wait("shop-1") == [(1, 1), {"$tuple": [2, 2]}]
    (listed,) = cli(tmp_path, "ls")
    assert listed["state"] == "completed"
