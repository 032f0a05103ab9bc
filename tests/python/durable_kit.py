"""What the tests of durable runs share: logs read and cut as a crash leaves them, processes that are killed until one is over, a ledger
that counts what was done in the world."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KILL_SECONDS = 60.0


def run_files(wal: Path) -> list[Path]:
    return sorted((wal / "wal").glob("*.wal"))


def lines(wal: Path) -> list[str]:
    """The lines of the only run's log, once no runtime has it open."""
    (file,) = run_files(wal)
    return file.read_text().splitlines(keepends=True)


def records(wal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(wal)]


def types(wal: Path) -> list[str]:
    return [record["type"] for record in records(wal)]


def cut(wal: Path, count: int, to: Path) -> Path:
    """Another directory, with so many lines of the only run's log, as a crash leaves it."""
    (file,) = run_files(wal)
    (to / "wal").mkdir(parents=True)
    (to / "wal" / file.name).write_text("".join(lines(wal)[:count]))
    return to


def first_rules(wal: Path) -> None:
    """Makes of the only run's log one that was begun before `RunStart` had rules."""
    (file,) = run_files(wal)
    crc = crc32c(uuid.UUID(file.stem).bytes + struct.pack("<I", 1))
    written = b""
    for line in file.read_bytes().replace(b'"rules":2,', b"").splitlines(keepends=True):
        crc = crc32c(line[:-19], crc)
        written += line[:-19] + b',"crc":"%08x"}\n' % crc
    file.write_bytes(written)


def crc32c(data: bytes, crc: int = 0) -> int:
    """The checksum of a line, which goes on from that of the line before."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Ledger:
    """A file in which every effect is a line, written with one system call."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def write(self, what: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{what}\n".encode())
        os.close(file)

    def read(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def counts(self) -> Counter[str]:
        return Counter(self.read())


def python(
    *args: str | os.PathLike[str], env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """A Python program of this directory as a process of its own."""
    everything = {**os.environ, "PYTHONHASHSEED": "0", **(env or {})}
    return subprocess.Popen(
        [sys.executable, *(os.fspath(arg) for arg in args)],
        cwd=HERE,
        env=everything,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str], seconds: float = 30.0) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it does not come to its end:\n{out}\n{err}") from None
    return process.returncode, out, err


def kill_until_over(
    program: str, home: Path, *args: str | os.PathLike[str], seed: int, kills: int = 5
) -> str:
    """Starts a program again and again and kills it with SIGKILL at random moments, until it comes to its end. Gives what it wrote at last.

    The moments are counted from where the process is seen to write, not from its start: how long Python takes to start differs from
    machine to machine by more than the whole work lasts."""
    draw, killed, began = random.Random(seed), 0, time.monotonic()
    while True:
        before = written(home)
        process = python(program, home, *args)
        while process.poll() is None and written(home) == before:
            assert time.monotonic() - began < KILL_SECONDS, "it does not come to its end"
            time.sleep(0.001)
        # Longer and longer once it was killed often enough, so that a slow machine comes to the end too.
        wait = draw.random() * 0.02 + 0.05 * max(0, killed - kills)
        try:
            out, err = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += 1
            continue
        assert process.returncode == 0, err
        assert killed >= kills, f"killed {killed} times only, so this shows nothing"
        return out


def written(home: Path) -> set[tuple[str, int, int]]:
    """What a process that writes into the directory changes of it."""
    found = set()
    for path in home.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            found.add((path.name, status.st_size, status.st_mtime_ns))
    return found


def wait_for(what: Any, seconds: float = 20.0) -> Any:
    """Waits until something is true, and gives it."""
    began = time.monotonic()
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() - began < seconds, "it does not happen"
        time.sleep(0.01)
