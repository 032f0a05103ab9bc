"""An agent that plans, asks a person, and acts: it tidies up a folder.

    tiffany run examples/python/approval.py                 # all of it, in a few seconds

It looks at a folder, plans which files to move, and waits until a person approves the plan, in
another process and perhaps days later. Then it acts, one step for each move. If it is killed at any
point, it continues where it stopped: the plan stays the same, and the question keeps its UUID. To
run it by hand, use two terminals:

    tiffany run --wal /tmp/tidy --id downloads examples/python/approval.py:tidy ~/Downloads
    tiffany --dir /tmp/tidy settle UUID '"yes"'
"""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import tiffany
from tiffany import create_external_promise, step, wait, workflow


@dataclass(frozen=True)
class Move:
    """A move that the agent proposes."""

    file: str
    to: str


@step
def plan(folder: str) -> list[Move]:
    """Looks at the folder and plans where each file belongs: in a folder named after its type."""
    kinds = {".jpg": "pictures", ".png": "pictures", ".mp3": "music", ".txt": "papers"}
    files = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_file())
    return [
        Move(path.name, f"{kinds[path.suffix]}/{path.name}")
        for path in files
        if path.suffix in kinds
    ]


@step(retries=3)
def act(folder: str, move: Move) -> str:
    """Makes one move. After a crash it may be repeated, so it checks whether the move was already
    made.
    """
    source, target = pathlib.Path(folder, move.file), pathlib.Path(folder, move.to)
    target.parent.mkdir(exist_ok=True)
    if source.exists():
        source.rename(target)
    return f"{move.file} -> {move.to}"


@step
def ask(question: str, uuid: str) -> None:
    """Asks a person. It is a step, so the question is asked once, or at most twice if the process
    is killed meanwhile.
    """
    print(f"{question} [{uuid}]", flush=True)


@workflow
async def tidy(folder: str) -> list[str]:
    """Plans, asks, and acts."""
    moves = await plan(folder)
    approval = await create_external_promise()
    await ask(f"move {len(moves)} files in {folder}?", approval.uuid)
    answer = await wait(approval.future)
    if answer != "yes":
        return [f"nothing was done: {answer}"]
    return [await act(folder, move) for move in moves]


def agent(home: str) -> subprocess.Popen[str]:
    """Starts the agent in a separate process."""
    command = ["run", "--wal", f"{home}/wal", "--id", "tidy", f"{__file__}:tidy", f"{home}/files"]
    words = [sys.executable, "-m", "tiffany", *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def demo(home: str) -> str:
    """Lets the agent ask, kills it, approves while no process runs, and lets another process of the
    agent do the rest.
    """
    files = pathlib.Path(home, "files")
    files.mkdir()
    for name in ("holiday.jpg", "cat.png", "song.mp3", "taxes.txt", "strange.xyz"):
        (files / name).write_text(name)
    first = agent(home)
    assert first.stdout is not None
    asked = first.stdout.readline()
    print(asked, end="")
    uuid = re.findall(r"\[(.*)\]", asked)[0]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    # No process needs to own the log: the answer is recorded, and read when the run is resumed.
    tiffany.complete_by_uuid(uuid, "yes", wal=f"{home}/wal")
    out, _ = agent(home).communicate(timeout=60)
    print(out, end="")
    there = sorted(str(path.relative_to(files)) for path in files.rglob("*") if path.is_file())
    expected = ["music/song.mp3", "papers/taxes.txt", "pictures/cat.png", "pictures/holiday.jpg"]
    assert there == [*expected, "strange.xyz"], there
    return f"{len(expected)} files are where they belong"


async def main() -> str:
    """Plays both roles, in separate processes."""
    with tempfile.TemporaryDirectory() as home:
        return await tiffany.calls.blocking(demo, home)


if __name__ == "__main__":
    print(tiffany.run(main()))
