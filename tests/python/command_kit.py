"""What the tests of the command line share: the command as a process of its own, in a directory of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: So long a command may take.
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Ended:
    """What came of a command."""

    code: int
    out: str
    err: str
    seconds: float

    def ok(self) -> str:
        """What it wrote; it must have ended well."""
        assert (self.code, self.err) == (0, ""), self
        return self.out


class Started:
    """A command that runs. Leaving the block ends it."""

    def __init__(
        self, words: Sequence[str], cwd: Path, env: dict[str, str], typed: str | None = None
    ) -> None:
        self._began = time.monotonic()
        self._typed = typed
        self.process = subprocess.Popen(
            words,
            cwd=cwd,
            env=env,
            text=True,
            stdin=None if typed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Who runs the tests may have Ctrl-C ignored, which a process inherits.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        """The next line that it writes."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> Ended:
        """Waits for its end."""
        try:
            out, err = self.process.communicate(self._typed, timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"it does not come to its end:\n{out}\n{err}") from None
        return Ended(self.process.returncode, out, err, time.monotonic() - self._began)


def environment(**changed: str) -> dict[str, str]:
    """The environment of this process, without what has a meaning for the command, or for pytest (which writes its messages in full on CI)."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("TIFFANY_") and key not in ("PYTHONHASHSEED", "CI", "BUILD_NUMBER")
    }
    return {**kept, **changed}


@dataclass(frozen=True)
class Home:
    """A directory with files of Python, and the command in it."""

    path: Path

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def start(self, *words: str, typed: str | None = None, **env: str) -> Started:
        """Starts ``python -m tiffany``, and types something into it."""
        command = [sys.executable, "-m", "tiffany", *words]
        return Started(command, self.path, environment(**env), typed)

    def run(self, *words: str, **env: str) -> Ended:
        """Runs it to its end."""
        with self.start(*words, **env) as started:
            return started.end()

    def python(self, *words: str, **env: str) -> Started:
        """Starts plain Python."""
        return Started([sys.executable, *words], self.path, environment(**env))


def does(command: str, expected: Sequence[str], cwd: Path, env: dict[str, str]) -> None:
    """A command of the book prints the lines that stand under it, in which ``…`` stands for anything, and a line of ``…`` for any lines."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    pattern = "".join(
        r"(?:.*\n)*" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in expected
    )
    assert re.fullmatch(pattern, done.stdout), f"$ {command}\n{done.stdout}{done.stderr}"
