"""A real PostgreSQL server for one test: made in a directory of its own, reached by a Unix socket, and gone with the test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any


def binaries() -> Path | None:
    """Where PostgreSQL's programs are: where Debian puts them, or on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    places = [*found, *([Path(on_path)] if on_path else [])]
    return places[-1].parent if places else None


class Server:
    """A server, which dies with this process."""

    def __init__(self) -> None:
        found = binaries()
        assert found is not None, "PostgreSQL is not installed: `apt install postgresql`"
        self.bin = found
        self.dir = Path(tempfile.mkdtemp(prefix="tiffany-pg-"))
        self.data = self.dir / "data"
        self.data.mkdir(mode=0o700)
        self.dir.chmod(0o755)
        if os.geteuid() == 0:
            other = pwd.getpwnam("nobody")
            os.chown(self.data, other.pw_uid, other.pw_gid)
        made = self.command(
            "initdb",
            "--username=tiffany",
            "--auth=trust",
            "--no-sync",
            "--encoding=UTF8",
            "-D",
            self.data,
        )
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd="/")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def command(self, program: str, *args: Any) -> list[str]:
        """A program of PostgreSQL's, which refuses to be run by root."""
        command = [str(self.bin / program), *map(str, args)]
        if os.geteuid() != 0:
            return command
        other = pwd.getpwnam("nobody")
        ids = [f"--reuid={other.pw_uid}", f"--regid={other.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, "--pdeathsig", "KILL", *command]

    def start(self) -> None:
        settings = ["listen_addresses=", "fsync=off", "max_connections=20"]
        flags = [flag for setting in settings for flag in ("-c", setting)]
        with open(self.dir / "server.log", "wb") as log:
            self.process = subprocess.Popen(
                self.command("postgres", "-D", self.data, "-k", self.data, *flags),
                stderr=log,
                stdout=subprocess.DEVNULL,
                cwd="/",
            )
        began = time.monotonic()
        while True:
            try:
                self.connect().close()
                return
            except Exception:
                said = (self.dir / "server.log").read_text()
                assert time.monotonic() - began < 30, f"the server does not start:\n{said}"
                time.sleep(0.02)

    @property
    def how(self) -> str:
        return f"host={self.data} user=tiffany dbname=postgres"

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.how)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
