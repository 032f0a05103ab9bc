"""Running programs."""

from __future__ import annotations

from typing import Any

from tiffany import _core


def run(program, *, env=None, handlers=None, name=None, end="all", limits=None, cancel_grace=None, policy="fifo", threads=4) -> Any:
    settings = {"env": env, "handlers": handlers, "name": name, "end": end, "limits": limits, "cancel_grace": cancel_grace, "policy": policy, "threads": threads}
    runtime = _core.Runtime(settings)
    try:
        return runtime.run(program)
    finally:
        runtime.close()
