"""The pipeline of `before.py`, with tiffany. The differences:

* a task is started with a call, `await spawn(…)`;
* a failure that no task waits for is printed;
* a queue is a channel: it is closed instead of sending a `None` to each worker, which ends
  `async for`;
* `timeout` takes a program, and `gather` takes tasks;
* the order, and therefore the output, is the same in every run.
"""

from __future__ import annotations

import tiffany
from tiffany import cancel, create_channel, gather, sleep, spawn, timeout, wait
from tiffany.calls import Channel, send


async def reader(name: str, jobs: int, queue: Channel[tuple[str, int]]) -> None:
    for number in range(jobs):
        await sleep(0.001)
        await send(queue, (name, number))


async def work(name: str, number: int) -> int:
    await sleep(10 if (name, number) == ("b", 3) else 0.001)
    if (name, number) == ("a", 2):
        raise ValueError("job a2 is bad")
    return number * number


async def worker(queue: Channel[tuple[str, int]], report: dict[str, str]) -> int:
    total = 0
    async for name, number in queue:
        try:
            total += await timeout(0.2, work(name, number))
        except ValueError as error:
            report[f"{name}{number}"] = str(error)
        except TimeoutError:
            report[f"{name}{number}"] = "too slow"
    return total


async def heartbeat(beats: list[int]) -> None:
    try:
        while True:
            await sleep(0.01)
            beats.append(1)
    finally:
        beats.append(0)


async def main() -> None:
    queue: Channel[tuple[str, int]] = await create_channel(2)
    report: dict[str, str] = {}
    beats: list[int] = []
    pulse = await spawn(heartbeat(beats))
    workers = [await spawn(worker(queue, report)) for _ in range(2)]
    await gather([await spawn(reader(name, 5, queue)) for name in ("a", "b")])
    queue.close()
    totals = await gather(workers)
    await cancel(pulse)
    try:
        await wait(pulse)
    except tiffany.errors.TaskCancelledError:
        print("the heartbeat was cancelled, and cleaned up:", beats[-1] == 0)
    print("total", sum(totals))
    for job in sorted(report):
        print(job, report[job])


if __name__ == "__main__":
    tiffany.run(main())
