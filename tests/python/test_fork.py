"""A process that forks after it has run tasks: the child makes runtimes of its own."""

from __future__ import annotations

import subprocess
import sys

from command_kit import LONGEST_SECONDS, environment

PROGRAM = """
import os, threading, time, tiffany

async def sleepers(count):
    async def one():
        return await tiffany.blocking(time.sleep, 0.05)
    return len(await tiffany.gather([await tiffany.spawn(one()) for _ in range(count)]))

def run_all():
    # Threads of Python's take the places in memory of those that are gone.
    threads = [threading.Thread(target=lambda: time.sleep(0.02)) for _ in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert tiffany.run(sleepers(40), threads=40) == 40

runtime = tiffany.Runtime(threads=6)
runtime.run(sleepers(6))  # Six threads are idle now.
for _ in range(4):
    child = os.fork()
    if child == 0:
        run_all()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
assert runtime.run(sleepers(6)) == 6
print("done")
"""


def test_a_child_has_threads_and_locks_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
