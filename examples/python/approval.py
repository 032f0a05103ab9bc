"""An agent that plans, asks a person, and acts: it tidies up a folder.

    tiffany run examples/python/approval.py                 # all of it, in a few seconds

It looks at a folder, makes a plan of what it would move where, and waits for somebody to approve: in another process, perhaps days later.
Then it acts, one step for each move. Killed anywhere it goes on where it was: the plan stays the plan, and the question keeps its UUID.
By hand, in two terminals:

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
    """One thing the agent would do."""

    file: str
    to: str


@step
def plan(folder: str) -> list[Move]:
    """Looks at the folder, and says what belongs where: files go to folders named after what they are."""
    kinds = {".jpg": "pictures", ".png": "pictures", ".mp3": "music", ".txt": "papers"}
    files = sorted(path for path in pathlib.Path(folder).iterdir() if path.is_file())
    return [
        Move(path.name, f"{kinds[path.suffix]}/{path.name}")
        for path in files
        if path.suffix in kinds
    ]


@step(retries=3)
def act(folder: str, move: Move) -> str:
    """Makes one move. It may be tried again after a crash, so it looks whether it was made already."""
    source, target = pathlib.Path(folder, move.file), pathlib.Path(folder, move.to)
    target.parent.mkdir(exist_ok=True)
    if source.exists():
        source.rename(target)
    return f"{move.file} -> {move.to}"


@step
def ask(question: str, uuid: str) -> None:
    """Asks a person. It is a step, so that the question is put once; twice at most, if the process dies while it is put."""
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
    """The agent as a process of its own."""
    command = ["run", "--wal", f"{home}/wal", "--id", "tidy", f"{__file__}:tidy", f"{home}/files"]
    words = [sys.executable, "-m", "tiffany", *command]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def demo(home: str) -> str:
    """The agent asks and is killed; a person approves while nobody runs; another process of the agent does the rest."""
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
    # The process that has the log may be gone: the answer is written down, and read when the run goes on.
    tiffany.complete_by_uuid(uuid, "yes", wal=f"{home}/wal")
    out, _ = agent(home).communicate(timeout=60)
    print(out, end="")
    there = sorted(str(path.relative_to(files)) for path in files.rglob("*") if path.is_file())
    expected = ["music/song.mp3", "papers/taxes.txt", "pictures/cat.png", "pictures/holiday.jpg"]
    assert there == [*expected, "strange.xyz"], there
    return f"{len(expected)} files are where they belong"


async def main() -> str:
    """Plays both parts, in processes of their own."""
    with tempfile.TemporaryDirectory() as home:
        return await tiffany.blocking(demo, home)


if __name__ == "__main__":
    print(tiffany.run(main()))
