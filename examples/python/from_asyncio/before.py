"""A pipeline in asyncio: readers put jobs into a queue, workers process them, one job takes too
long, and a report is printed at the end.

`after.py` is the same program with tiffany. Both print the same output.
"""

from __future__ import annotations

import asyncio


async def reader(name: str, jobs: int, queue: asyncio.Queue[tuple[str, int] | None]) -> None:
    for number in range(jobs):
        await asyncio.sleep(0.001)
        await queue.put((name, number))


async def work(name: str, number: int) -> int:
    await asyncio.sleep(10 if (name, number) == ("b", 3) else 0.001)
    if (name, number) == ("a", 2):
        raise ValueError("job a2 is bad")
    return number * number


async def worker(queue: asyncio.Queue[tuple[str, int] | None], report: dict[str, str]) -> int:
    total = 0
    while (job := await queue.get()) is not None:
        name, number = job
        try:
            total += await asyncio.wait_for(work(name, number), timeout=0.2)
        except ValueError as error:
            report[f"{name}{number}"] = str(error)
        except TimeoutError:
            report[f"{name}{number}"] = "too slow"
    return total


async def heartbeat(beats: list[int]) -> None:
    try:
        while True:
            await asyncio.sleep(0.01)
            beats.append(1)
    finally:
        beats.append(0)


async def main() -> None:
    queue: asyncio.Queue[tuple[str, int] | None] = asyncio.Queue(maxsize=2)
    report: dict[str, str] = {}
    beats: list[int] = []
    pulse = asyncio.create_task(heartbeat(beats))
    workers = [asyncio.create_task(worker(queue, report)) for _ in range(2)]
    await asyncio.gather(*(reader(name, 5, queue) for name in ("a", "b")))
    for _ in workers:
        await queue.put(None)
    totals = await asyncio.gather(*workers)
    pulse.cancel()
    try:
        await pulse
    except asyncio.CancelledError:
        print("the heartbeat was cancelled, and cleaned up:", beats[-1] == 0)
    print("total", sum(totals))
    for job in sorted(report):
        print(job, report[job])


if __name__ == "__main__":
    asyncio.run(main())
