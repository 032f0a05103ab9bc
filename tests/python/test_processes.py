"""Other processes: one settles a promise through the directory, one was forked and uses what is not its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tiffany
from command_kit import environment
from durable_kit import HERE, types

POOLED = str(HERE / "programs" / "pooled.py")


def run(program: str, *args: str) -> str:
    ended = subprocess.run(
        [sys.executable, str(HERE / "programs" / program), *args],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_another_process_settles_a_promise_by_its_uuid(method: str, tmp_path: Path) -> None:
    wal = tmp_path / "wal"
    said = run("other_process.py", method, str(wal))
    assert said == "((True, False), {'approved': True, 'by': ('somebody', 'else')})\n"
    assert types(wal).count("PromiseSettled") == 1


def test_a_forked_child_cannot_use_what_is_its_parent_s() -> None:
    seen = ["'TFY0047'"] * 4 + ["\"'nothing'\"", "'True'"]
    assert run("forked.py") == f"([{', '.join(seen)}], 'from the parent', 'nothing')\n"


@contextmanager
def started(*words: str) -> Iterator[tuple[subprocess.Popen[str], Callable[[str], str]]]:
    """A program, and a function that reads its lines up to one that begins with something."""
    with subprocess.Popen(
        [sys.executable, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        out, err = program.stdout, program.stderr
        assert out is not None and err is not None

        def line(begins: str) -> str:
            found = next((line for line in out if line.startswith(begins)), None)
            assert found is not None, err.read()
            return found

        try:
            yield program, line
        finally:
            program.kill()


@contextmanager
def worker(line: str) -> Iterator[int]:
    """A process of a pool, by what its program says of it. It outlives its program, and is ended here."""
    pid = int(re.fullmatch(r"worker (\d+)\n", line)[1])  # type: ignore[index]
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_killed_program_leaves_its_directory_free_though_its_pool_lives_on(
    tmp_path: Path,
) -> None:
    wal = str(tmp_path / "wal")
    with started(POOLED, wal) as (program, line), worker(line("worker")):
        program.kill()
        program.wait()
        # Another one has the directory at once, and is asked through its socket.
        with started(POOLED, wal) as (_, line):
            line("worker")
            with tiffany.connect(wal) as log:
                assert not log.is_offline


def test_a_killed_daemon_leaves_directory_and_port_free_though_its_pool_lives_on(
    tmp_path: Path,
) -> None:
    def serve(listen: str) -> list[str]:
        words = ["--app", POOLED, "--dir", str(tmp_path / "wal"), "serve", "--json"]
        return ["-m", "tiffany", *words, "--listen", listen]

    with started(*serve("127.0.0.1:0")) as (program, line):
        url = json.loads(line("{"))["url"]
        body = json.dumps({"function": "order", "id": "order-1", "input": {}}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}/api/v1/runs", data=body, headers=headers)
        urllib.request.urlopen(request, timeout=60).close()
        with worker(line("worker")):
            program.kill()
            program.wait()
            port = int(url.rsplit(":", 1)[1])
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0
            began = time.monotonic()
            with started(*serve(f"127.0.0.1:{port}")) as (_, line):
                assert json.loads(line("{"))["url"] == url
                assert time.monotonic() - began < 30
