"""Workflows whose step runs in a pool of forked processes, hosted by this program or by `tiffany serve --app`."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import tiffany

pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork"))


@tiffany.step
def worker() -> int:
    """Has a process forked while the log, the socket and the port are open."""
    return pool.submit(os.getpid).result()


@tiffany.workflow
async def order() -> int:
    pid = await worker()
    print(f"worker {pid}", flush=True)
    await tiffany.sleep(600)
    return pid


if __name__ == "__main__":
    with tiffany.Runtime(wal=sys.argv[1]) as runtime:
        runtime.run(order(), id="order-1")
