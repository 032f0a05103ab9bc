"""The examples run by themselves, in both ways, and come to what they should."""

from __future__ import annotations

import re
import shutil
import signal
import socket
from pathlib import Path

import pytest
from command_kit import Home

EXAMPLES = Path(__file__).parents[2] / "examples/python"

#: What each of them prints at last.
OUTPUT = {
    "approval.py": "4 files are where they belong",
    "crawler.py": "31 pages; {'/nowhere': '404', '/slow': 'too slow'}",
    "echo_server.py": "500 lines of 50 clients came back",
    "from_asyncio/after.py": "b3 too slow",
    "from_asyncio/before.py": "b3 too slow",
    "map_reduce.py": "[('tea', 2741), ('cake', 2123), ('cup', 1528)]",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_every_example_is_listed() -> None:
    there = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}
    assert there == set(OUTPUT)


@pytest.mark.parametrize("name", sorted(OUTPUT))
def test_by_python(home: Home, name: str) -> None:
    with home.python(str(EXAMPLES / name)) as started:
        assert started.end().ok().splitlines()[-1] == OUTPUT[name]


@pytest.mark.parametrize("name", sorted(set(OUTPUT) - {"from_asyncio/before.py"}))
def test_by_the_command(home: Home, name: str) -> None:
    assert home.run("run", str(EXAMPLES / name)).ok().splitlines()[-1] == OUTPUT[name]


def test_both_sides_of_the_port_print_the_same(home: Home) -> None:
    printed = []
    for side in ("before.py", "after.py"):
        with home.python(str(EXAMPLES / "from_asyncio" / side)) as started:
            printed.append(started.end().ok())
    assert printed[0] == printed[1]
    assert len(printed[0].splitlines()) == 4


def test_the_plan_is_carried_out_by_another_process_than_made_it(home: Home) -> None:
    lines = home.run("run", str(EXAMPLES / "approval.py")).ok().splitlines()
    uuids = {uuid for line in lines[:-2] for uuid in re.findall(r"\[([0-9a-f-]{36})\]", line)}
    assert len(uuids) == 1, lines
    assert "cat.png -> pictures/cat.png" in lines[-2]


def test_the_server_serves_until_ctrl_c(home: Home) -> None:
    with home.start("run", str(EXAMPLES / "echo_server.py") + ":serve", "127.0.0.1", "0") as server:
        port = int(re.findall(r":(\d+);", server.line())[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"hello")
            assert client.recv(100) == b"hello"
            server.signal(signal.SIGINT)
            ended = server.end()
            assert client.recv(100) == b""
    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_words_are_counted_by_a_durable_run_too(home: Home) -> None:
    shutil.copytree(Path(__file__).parents[2] / "docs/src/adr", home.path / "texts")
    command = ("run", "--wal", "wal", "--id", "w", str(EXAMPLES / "map_reduce.py") + ":count_words")
    found = home.run(*command, "texts").ok()
    assert re.fullmatch(r"\[\('the', \d+\), \(.*\), \(.*\)\]\n", found)
    shutil.rmtree(home.path / "texts")
    assert home.run(*command, "texts").ok() == found
    counted = home.run("--dir", "wal", "--json", "log", "w", "--type", "EffectResult").ok()
    assert len(counted.splitlines()) == 1 + len(
        list((EXAMPLES.parents[1] / "docs/src/adr").iterdir())
    )
