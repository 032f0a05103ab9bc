"""The page on clients, followed as a reader follows it: its files, its daemon, its commands."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from client_kit import Daemon
from command_kit import Home, does, environment
from test_book import commands_in, files_in

PAGE = Path(__file__).parents[2] / "docs/src/clients.md"


def test_the_page_on_clients_can_be_followed(tmp_path: Path) -> None:
    """Its files are written, its daemon serves, and its commands print what stands under them."""
    text = PAGE.read_text()
    files = dict(files_in(text))
    assert list(files) == ["app.py", "client.py", "many.py"]
    home = Home(tmp_path)
    with Daemon(home, program=files["app.py"]) as daemon:
        for name, program in files.items():
            home.write(name, program)
        commands = commands_in(text)
        assert commands.pop(0)[0].startswith("tiffany --app app.py serve")
        assert len(commands) == 4
        for command, printed in commands:
            command = command.replace("http://127.0.0.1:8787", daemon.url)
            command = re.sub(r"\bpython ", "$PYTHON ", command)
            command = re.sub(r"^tiffany ", "$PYTHON -m tiffany ", command)
            does(command, printed, tmp_path, environment(PYTHON=sys.executable))
