"""The operating system of David Beazley's course on coroutines (2009), as a dialect of tiffany.

A program written for the course's ``pyos8`` runs if only its import is changed:

>>> from tiffany.pyos import *
>>> def child():
...     for n in range(2):
...         print("child", n)
...         yield
>>> def main():
...     tid = yield NewTask(child())
...     print("waited:", (yield WaitTask(tid)))
>>> scheduler = Scheduler()
>>> _ = scheduler.new(main())
>>> scheduler.mainloop()  # doctest: +ELLIPSIS
child 0
child 1
Task ... terminated
waited: True
Task ... terminated

This package has no loop of its own: ``mainloop`` runs the kernel, and a pyos task is an ordinary
task. The chapter "Old pyos programs" of the book lists the differences from the original.
"""

# Exported too for programs that import everything from here.
import select
import types
from queue import Queue

from tiffany.pyos._calls import GetTid, KillTask, NewTask, ReadWait, SystemCall, WaitTask, WriteWait
from tiffany.pyos._library import Accept, Recv, Send
from tiffany.pyos._scheduler import Scheduler
from tiffany.pyos._task import Task

__all__ = [
    "Accept",
    "GetTid",
    "KillTask",
    "NewTask",
    "Queue",
    "ReadWait",
    "Recv",
    "Scheduler",
    "Send",
    "SystemCall",
    "Task",
    "WaitTask",
    "WriteWait",
    "select",
    "types",
]
