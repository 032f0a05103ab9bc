"""Live events of runs, and subscriptions that are iterated on a thread or under asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tiffany import _core
from tiffany._arguments import seconds


@dataclass(frozen=True)
class Activity:
    """An event of a run.

    ``task_id`` is the run's UUID, or the number of a run without a log. ``tid`` is the number of
    the task, or ``None`` for an event about the run as a whole. A ``ghost`` event happened before
    and is repeated because its run is being resumed. ``cut`` is the length of the message in bytes
    before it was truncated. ``data`` has the details of the stage.
    """

    seq: int
    ts: datetime
    task_id: str
    tid: int | None
    stage: str
    message: str
    ghost: bool = False
    cut: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Lost:
    """Events that a reader lost because it was too slow or subscribed too late.

    ``count`` says how many are missing before the next event.
    """

    count: int


class Subscription:
    """A stream of events, each an `Activity` or a `Lost`.

    Iterate it on a thread with ``for event in subscription``, or under asyncio with ``async for
    event in subscription``. Iteration ends when the runtime is closed. Close the subscription when
    you no longer need it, preferably with ``with``.
    """

    def __init__(self, core: _core._Subscription) -> None:
        self._core = core

    @property
    def epoch(self) -> int:
        """A random number chosen when the runtime was created. Event numbers are comparable only
        within one epoch.
        """
        return self._core.epoch()

    @property
    def lost(self) -> int:
        """The number of events lost so far."""
        return self._core.lost()

    def next(self, timeout: float | timedelta | None = None) -> Activity | Lost | None:
        """Waits for the next event and returns it. Returns ``None`` if the runtime is closed and no
        events are left. Raises ``TimeoutError`` if no event arrives in time.
        """
        limit = None if timeout is None else seconds("`timeout`", timeout)
        told = self._core.next(limit)
        if told is False:
            raise TimeoutError(f"nothing came within {limit} seconds")
        return _read(told)

    def __iter__(self) -> Iterator[Activity | Lost]:
        while (told := self.next()) is not None:
            yield told

    async def __aiter__(self) -> AsyncIterator[Activity | Lost]:
        loop = asyncio.get_running_loop()
        while True:
            came = asyncio.Event()

            def wake(came: asyncio.Event = came) -> None:
                # If the loop is closed, no coroutine waits there.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(came.set)

            told = self._core.poll(wake)
            if told is None:
                return
            if told is False:
                await came.wait()
                continue
            event = _read(told)
            if event is not None:
                yield event

    def close(self) -> None:
        """Ends the subscription."""
        self._core.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(told: tuple[str | None, int] | bool | None) -> Activity | Lost | None:
    """Builds an event from its parts."""
    if not isinstance(told, tuple):
        return None
    text, lost = told
    if text is None:
        return Lost(lost)
    return event_of(json.loads(text))


def event_of(parts: dict[str, Any]) -> Activity:
    """Builds an event from its JSON."""
    # Nanoseconds are more than a datetime has.
    ts = datetime.fromisoformat(parts["ts"][:26] + "+00:00")
    return Activity(**{"tid": None, **parts, "ts": ts})
