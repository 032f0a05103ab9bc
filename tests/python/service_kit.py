"""What the tests of web services share: servers of their own, as processes that can be killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A process that serves HTTP. What it writes is in a file of the home directory."""

    def __init__(self, command: list[str], cwd: Path, home: Path, port: int, ready: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._command, self._cwd, self._home, self._ready = command, cwd, home, ready
        self.log = home / f"server-{port}.log"
        self.start()

    def start(self) -> None:
        env = {**os.environ, "SHOP_HOME": str(self._home), "PYTHONHASHSEED": "0"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def ready(self) -> None:
        """Waits until it answers."""
        async with httpx.AsyncClient() as client:
            for _ in range(3000):
                with contextlib.suppress(httpx.TransportError):
                    if (await client.get(self.url + self._ready)).status_code < 500:
                        return
                assert self.process.poll() is None, self.log.read_text()
                await asyncio.sleep(0.01)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        """Kills it and the processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """Ends it as a service manager does."""
        self.process.send_signal(signal.SIGTERM)
        # uvicorn raises the signal again once its lifespan has ended.
        assert self.process.wait(30) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)


class Server(Process):
    """A process of uvicorn."""

    def __init__(
        self, app: str, cwd: Path, home: Path, *options: str, ready: str = "/ready"
    ) -> None:
        port = free_port()
        command = [sys.executable, "-u", "-m", "uvicorn", app, "--port", str(port)]
        super().__init__([*command, "--log-level", "warning", *options], cwd, home, port, ready)


class Daemon(Process):
    """A process of `tiffany serve`, which owns the directory."""

    def __init__(self, app: str, cwd: Path, home: Path) -> None:
        port = free_port()
        words = ["--app", app, "--dir", str(home / "wal"), "serve", "--listen", f"127.0.0.1:{port}"]
        super().__init__([sys.executable, "-m", "tiffany", *words], cwd, home, port, "/readyz")
