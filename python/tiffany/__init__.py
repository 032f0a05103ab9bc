"""Durable coroutines: tasks that survive anything.

A task is a generator or an ``async def`` coroutine. What it wants it asks of the scheduler, by yielding or awaiting a call:

>>> import tiffany
>>> from tiffany import Gather, Sleep, Spawn
>>> def worker(n):
...     yield Sleep(0.001)
...     return n * n
>>> def main():
...     tasks = []
...     for n in range(3):
...         tasks.append((yield Spawn(worker(n))))
...     return (yield Gather(tasks))
>>> tiffany.run(main())
[0, 1, 4]
"""

from tiffany._core import *  # noqa: F403
from tiffany._run import run
