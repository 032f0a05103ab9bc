"""A task of pyos is a task like any other: there is one kernel, and its tables are what the scheduler shows."""

from __future__ import annotations

import gc
import os
import socket
import sys
import weakref
from contextvars import ContextVar
from typing import Any

import pytest
import tiffany
import tiffany.pyos
from pyos.kit import Pause, Program, Quiet, Run, said_by
from tiffany.errors import DeadlockError
from tiffany.pyos import (
    Accept,
    GetTid,
    KillTask,
    NewTask,
    ReadWait,
    Recv,
    Scheduler,
    Send,
    SystemCall,
    Task,
    WaitTask,
    WriteWait,
)
from tiffany.pyos.sockwrap import Socket


def test_numbers_are_the_kernels() -> None:
    done = said_by(
        """
        import tiffany
        def child():
            print((yield GetTid()), (yield tiffany.calls.GetTid()))
        def main():
            print((yield GetTid()), (yield tiffany.calls.GetTid()))
            tid = yield NewTask(child())
            yield WaitTask(tid)
        sched = Scheduler()
        sched.new(main())
        sched.new(child())
        sched.mainloop()
        """
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert sorted(done.stdout.splitlines())[:3] == ["1 1", "2 2", "3 3"]


def test_a_task_with_another_number_is_named_by_its_own(sched: Quiet) -> None:
    def pauses() -> Program:
        yield Pause()

    Task(pauses())
    tid = sched.new(pauses())
    with pytest.raises(DeadlockError, match=f"task 1 `pyos task {tid}`"):
        sched.mainloop()


def test_calls_of_tiffany_are_calls_here_too(run: Run) -> None:
    said: list[Any] = []

    def native(n: int) -> Program:
        yield tiffany.calls.Sleep(0.001)
        return n * n

    async def coroutine(n: int) -> int:
        await tiffany.calls.Sleep(0.001)
        return -n

    def main() -> Program:
        task = yield tiffany.calls.Spawn(native(5))
        said.append((yield tiffany.calls.Wait(task)))
        said.append((yield tiffany.calls.Call(native(6))))
        said.append((yield coroutine(7)))
        with pytest.raises(tiffany.errors.ChannelClosedError):
            channel = yield tiffany.calls.CreateChannel()
            channel.close()
            yield tiffany.calls.Receive(channel)
        tid = yield NewTask(native(8))
        said.append((yield tiffany.calls.WaitTask(tid)) in (True, False))

    assert run(main()).failures == []
    assert said == [25, 36, -7, True]


def test_a_coroutine_is_a_task(run: Run) -> None:
    said: list[Any] = []

    async def main() -> None:
        await tiffany.calls.Sleep(0)
        said.append(await tiffany.calls.GetTid())

    run(main())
    assert said == [1]


def test_a_task_that_is_scheduled_waits_no_longer_for_a_call_of_tiffany(run: Run) -> None:
    said: list[Any] = []

    class Wake(SystemCall):
        def handle(self) -> None:
            sleeper = self.sched.taskmap[tid]
            sleeper.sendval = "woken"
            self.sched.schedule(sleeper)
            self.sched.schedule(self.task)

    def sleeps() -> Program:
        said.append((yield tiffany.calls.Sleep(60)))
        said.append((yield tiffany.calls.Sleep(0.01)))

    def main() -> Program:
        yield
        yield Wake()

    tid = Task.taskid + 1
    run(sleeps(), main())
    assert said == ["woken", None]


def test_the_tables_say_what_is_so(run: Run) -> None:
    reader, writer = os.pipe()
    left, right = socket.socketpair()
    # Nobody reads: there is no room for more.
    left.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            left.send(b"x" * 65536)
    seen: list[Any] = []

    class Look(SystemCall):
        def handle(self) -> None:
            sched = self.sched
            waiting = {tid: [t.tid for t in tasks] for tid, tasks in sched.exit_waiting.items()}
            reading = {fd: task.tid for fd, task in sched.read_waiting.items()}
            writing = {fd: task.tid for fd, task in sched.write_waiting.items()}
            self.task.sendval = (
                sched.ready.qsize(),
                sorted(sched.taskmap),
                waiting,
                reading,
                writing,
            )
            sched.schedule(self.task)

    def reads() -> Program:
        yield ReadWait(reader)

    def writes() -> Program:
        yield WriteWait(left)

    def waits() -> Program:
        yield WaitTask(first)

    def spins() -> Program:
        for _ in range(7):
            yield

    def main() -> Program:
        seen.append((yield Look()))
        yield
        yield KillTask(first)
        yield
        seen.append((yield Look()))
        yield KillTask(first + 1)
        for _ in range(5):
            yield
        seen.append((yield Look()))

    first = Task.taskid + 1
    run(reads(), writes(), waits(), spins(), main())
    one, two, three, four, five = range(first, first + 5)
    fd = left.fileno()
    assert seen == [
        (1, [one, two, three, four, five], {one: [three]}, {reader: one}, {fd: two}),
        (1, [two, four, five], {}, {}, {fd: two}),
        (0, [five], {}, {}, {}),
    ]
    os.close(writer)
    left.close()
    right.close()


def test_a_scheduler_has_all_that_the_original_had(sched: Quiet) -> None:
    def nothing() -> Program:
        yield

    names = (
        "ready taskmap exit_waiting read_waiting write_waiting new exit waitforexit waitforread "
        "waitforwrite iopoll iotask schedule mainloop"
    )
    assert [name for name in names.split() if not hasattr(sched, name)] == []
    target = nothing()
    task = Task(target)
    assert (task.target, task.sendval, task.stack) == (target, None, [])
    assert task.tid == Task.taskid
    wanted = (
        "Task Scheduler SystemCall GetTid NewTask KillTask WaitTask ReadWait WriteWait Accept Send "
        "Recv types select Queue"
    )
    assert sorted(wanted.split()) == tiffany.pyos.__all__


def test_several_wait_for_one_descriptor(run: Run) -> None:
    reader, writer = os.pipe()
    said: list[Any] = []

    def reads(n: int) -> Program:
        yield ReadWait(reader)
        said.append((n, os.read(reader, 1)))

    def writes() -> Program:
        yield
        os.write(writer, b"abc")

    run(reads(0), reads(1), reads(2), writes())
    assert said == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_call_waits_for_reading_or_writing(run: Run) -> None:
    reader, writer = os.pipe()
    said: list[Any] = []

    class Either(SystemCall):
        def handle(self) -> None:
            self.sched.waitforread(self.task, reader)
            self.sched.waitforwrite(self.task, writer)

    def main() -> Program:
        yield Either()
        said.append("one of them")

    run(main())
    assert said == ["one of them"]


def test_a_task_is_made_to_wait_by_another(run: Run) -> None:
    reader, writer = os.pipe()
    said: list[Any] = []

    class LetWait(SystemCall):
        def handle(self) -> None:
            self.sched.waitforread(self.sched.taskmap[tid], reader)
            self.sched.schedule(self.task)

    def pauses() -> Program:
        yield Pause()
        said.append(os.read(reader, 1))

    def main() -> Program:
        yield
        yield LetWait()
        yield
        os.write(writer, b"x")

    tid = Task.taskid + 1
    run(pauses(), main())
    assert said == [b"x"]


def test_a_task_that_is_over_is_not_scheduled(run: Run) -> None:
    kept: list[Any] = []

    class Keep(SystemCall):
        def handle(self) -> None:
            kept.append(self.task)
            self.sched.schedule(self.task)

    class Again(SystemCall):
        def handle(self) -> None:
            self.sched.schedule(kept[0])
            self.sched.schedule(self.task)

    def short() -> Program:
        yield Keep()

    def main() -> Program:
        yield
        yield
        yield Again()
        yield

    sched = run(short(), main())
    assert len(sched.over) == 2


def test_a_loop_of_ones_own_polls(sched: Quiet) -> None:
    left, right = socket.socketpair()
    said: list[Any] = []

    def reads() -> Program:
        said.append((yield Recv(left, 10)))

    def writes() -> Program:
        yield Send(right, b"hello")

    sched.new(reads())
    sched.new(writes())
    sched.new(sched.iotask())
    while sched.taskmap:
        task = sched.ready.get()
        try:
            result = task.run()
        except StopIteration:
            sched.exit(task)
            continue
        if isinstance(result, SystemCall):
            result.task = task
            result.sched = sched
            result.handle()
        else:
            sched.schedule(task)
    assert said == [b"hello"]
    left.close()
    right.close()
    # In the main loop there is nothing for it to do.
    sched.new(sched.iotask())
    sched.mainloop()


def test_iopoll_in_a_task_does_not_block(run: Run) -> None:
    reader, writer = os.pipe()
    said: list[Any] = []

    def reads() -> Program:
        yield ReadWait(reader)
        said.append(os.read(reader, 1))

    class Poll(SystemCall):
        def handle(self) -> None:
            self.sched.iopoll(None)
            self.sched.schedule(self.task)

    def main() -> Program:
        yield
        yield Poll()
        os.write(writer, b"x")
        yield Poll()

    run(reads(), main())
    assert said == [b"x"]


def test_sockets_that_do_not_block(run: Run) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    client = socket.create_connection(listener.getsockname())
    client.setblocking(False)
    said: list[Any] = []

    def serve() -> Program:
        served, _address = yield Accept(listener)
        wrapped = Socket(served)
        data = yield wrapped.recv(100)
        yield wrapped.send(data.upper())
        yield wrapped.close()

    def ask() -> Program:
        yield Send(client, b"hello")
        said.append((yield Recv(client, 100)))
        said.append((yield Recv(client, 100)))
        client.close()

    run(serve(), ask())
    listener.close()
    assert said == [b"HELLO", b""]


def test_a_switch_calls_no_python_but_the_tasks(run: Run) -> None:
    called: list[Any] = []

    def spins() -> Program:
        for _ in range(50):
            yield

    def watch() -> Program:
        sys.setprofile(lambda frame, event, _: called.append((frame.f_code.co_name, event)))
        for _ in range(50):
            yield
        sys.setprofile(None)

    run(watch(), spins())
    assert {name for name, _ in called} == {"watch", "spins"}


def test_nothing_is_left_behind() -> None:
    reader, writer = os.pipe()

    def child() -> Program:
        yield ReadWait(reader)

    def main() -> Program:
        tid = yield NewTask(child())
        yield WaitTask(tid + 1000)
        yield KillTask(tid)

    def use() -> list[weakref.ref[Any]]:
        sched = Quiet()
        sched.new(main())
        tasks = list(sched.taskmap.values())
        sched.mainloop()
        abandoned = Quiet()
        task = Task(pauses(abandoned))
        abandoned.taskmap[task.tid] = task
        abandoned.schedule(task)
        return [weakref.ref(thing) for thing in (sched, *tasks, abandoned, task)]

    def pauses(sched: Scheduler) -> Program:
        yield Pause()
        sched.mainloop()

    refs = use()
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)
    os.close(reader)
    os.close(writer)


def test_many_tasks(run: Run) -> None:
    done: list[Any] = []

    def child(n: int) -> Program:
        yield
        done.append((yield GetTid()))

    def main() -> Program:
        for n in range(5_000):
            yield NewTask(child(n))

    run(main())
    assert len(done) == 5_000


def test_tasks_have_contexts_of_their_own(run: Run) -> None:
    name: ContextVar[str] = ContextVar("name", default="nobody")
    seen: list[str] = []

    def child() -> Program:
        seen.append(name.get())
        name.set("child")
        yield
        seen.append(name.get())

    def main() -> Program:
        name.set("main")
        tid = yield NewTask(child())
        yield WaitTask(tid)
        seen.append(name.get())

    run(main())
    assert seen == ["main", "child", "main"]
    assert name.get() == "nobody"


def test_a_task_that_forks_has_no_loop_in_the_child() -> None:
    done = said_by(
        """
        import os, sys, tiffany
        def other():
            for n in range(20):
                yield
            print("other, once", flush=True)
        def main():
            pid = os.fork()
            if pid:
                yield
                print("child ended with", os.waitpid(pid, 0)[1], flush=True)
                return
            try:
                yield
            finally:
                print("child: it went on", flush=True)
        Scheduler.tells_end = False
        sched = Scheduler()
        sched.new(main())
        sched.new(other())
        sched.mainloop()
        print("over", flush=True)
        """
    )
    assert sorted(done.stdout.splitlines()) == [
        "child ended with 256",
        "other, once",
        "over",
    ]
    assert "[TFY0047]" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.returncode == 0
