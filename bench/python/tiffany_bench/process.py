"""Processes: one for each sample, and those that a sample itself starts.

Each sample has its own process, so that the modules and the garbage of one contender do not burden
the next, and one that hangs or crashes affects no other.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from importlib import metadata
from pathlib import Path
from typing import Self

from .harness import Contender, Measure, Missing, Mode, Sample

#: Seconds after which a sample is given up.
TIMEOUT = {Mode.FULL: 600.0, Mode.QUICK: 120.0}


def sample(measure: Measure, contender: Contender, mode: Mode, directory: Path) -> Sample | Missing:
    """Takes one sample in a separate process (:mod:`tiffany_bench.sample`)."""
    absent = [name for name in contender.needs if version(name) is None]
    if absent:
        names = " and ".join(absent)
        return Missing(
            f"no {names} here: pip install -r bench/python/requirements.txt", absent=True
        )
    module = [sys.executable, "-m", "tiffany_bench.sample"]
    process = subprocess.Popen(
        [*module, measure.name, contender.name, mode.value, str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        env=_environment(),
    )
    try:
        said, complaints = process.communicate(timeout=TIMEOUT[mode])
    except subprocess.TimeoutExpired:
        _end_group(process)
        return Missing(f"no answer within {TIMEOUT[mode]:g} s")
    except BaseException:
        _end_group(process)
        raise
    if process.returncode != 0:
        return Missing(f"{_ending(process.returncode)}: {_last_line(complaints)}")
    return Sample(**json.loads(said))


def _environment() -> dict[str, str]:
    """Returns the environment in which a process finds this package."""
    places = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}


def version(package: str) -> str | None:
    """Returns the version of an installed package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _ending(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _last_line(complaints: str) -> str:
    lines = complaints.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _end_group(process: subprocess.Popen[str]) -> None:
    """Ends a sample and everything it has started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


class Child:
    """A Python process that reports its progress in lines. It is killed at the end of the ``with``.

    Its standard input is a pipe; when the pipe is closed, the process knows that its parent is
    gone.
    """

    def __init__(self, *arguments: str) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env=_environment(),
        )
        self.pid = self._process.pid

    def line(self) -> str:
        """Returns the next line that the process writes."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.kill()
            self._complaints.seek(0)
            last = _last_line(self._complaints.read().decode(errors="replace"))
            raise RuntimeError(f"a process of it {_ending(self._process.returncode)}: {last}")
        return line.decode().strip()

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._complaints.close()


def end_with_parent() -> None:
    """Ends this process when the one that started it as a :class:`Child` is gone."""

    def wait() -> None:
        os.read(0, 1)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
