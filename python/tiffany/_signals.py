"""Ctrl-C while durable runs go on: they are left as they are, and nothing is raised inside a task, whose ``finally`` would run."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from tiffany import _core


def _note(signum: int, frame: FrameType | None) -> None:
    _core._interrupt()
    # The second one ends the process as a crash does, which durable runs survive.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def later() -> Iterator[None]:
    """Within this, Ctrl-C ends the loop and is raised when that has let go. Handlers of the user's own stay."""
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not is_ours:
        yield
        return
    signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _core._check_interrupt()
