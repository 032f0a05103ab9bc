"""Programs written for the course's pyos8: they run when only the import changes, and say what they said there.

Each has what it prints beside it. Numbers of tasks that were started by tasks are one lower than in the original, whose poller had one.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

# Where the network says who is first, only what was printed counts.
IN_ANY_ORDER = {"echo_server", "echo_socket"}


def with_our_import(text: str) -> str:
    changed = text.replace("from pyos8 import", "from tiffany.pyos import")
    assert changed != text
    return changed.replace("from sockwrap import", "from tiffany.pyos.sockwrap import")


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.pyos8")))
def test_runs_when_only_the_import_changes(name: str, tmp_path: Path) -> None:
    program = tmp_path / f"{name}.py"
    program.write_text(with_our_import((PROGRAMS / f"{name}.pyos8").read_text()))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False
    )
    expected = (PROGRAMS / f"{name}.out").read_text()
    said = done.stdout
    if name in IN_ANY_ORDER:
        said = "".join(sorted(said.splitlines(keepends=True)))
        expected = "".join(sorted(expected.splitlines(keepends=True)))
    assert (said, done.stderr, done.returncode) == (expected, "", 0)


def test_the_program_of_the_book(tmp_path: Path) -> None:
    """The server of the chapter on pyos answers its three clients, and ends."""
    book = Path(__file__).parents[3] / "docs/src/pyos.md"
    [text] = [block for block in book.read_text().split("```") if "def listen(" in block]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = tmp_path / "server.py"
    program.write_text(text.removeprefix("python\n").replace("45000", str(port)))
    server = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    clients = [connect(port) for _ in range(3)]
    answers = []
    for number, client in enumerate(reversed(clients)):
        with client:
            client.sendall(f"client {number}".encode())
            answers.append(client.recv(100))
    said, _ = server.communicate(timeout=30)
    assert answers == [b"CLIENT 0", b"CLIENT 1", b"CLIENT 2"]
    lines = said.splitlines()
    assert (sorted(lines), server.returncode) == ([f"Task {n} terminated" for n in (1, 2, 3, 4)], 0)


def connect(port: int) -> socket.socket:
    """Connects to a server that is about to listen."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
