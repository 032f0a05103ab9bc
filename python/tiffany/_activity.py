"""What runs are doing, while they do it: events, and a subscription that is iterated by a thread or under asyncio."""

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
    """One thing that happened. ``task_id`` is the run's UUID, or the number of a run without a log; ``tid`` is the task, ``None`` where it is about the run as
    a whole. A ``ghost`` happened before, and happens again because its run is brought back. ``cut`` is how many bytes the message had before it was cut; ``data`` is what
    belongs to the stage."""

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
    """The reader was too slow, or came too late: so many events before the next one are gone."""

    count: int


class Subscription:
    """Events as they come, each an `Activity`, or `Lost`. Iterate it on a thread, ``for event in subscription``, or under asyncio, ``async for event in
    subscription``: both end when the runtime is closed. `close` it, best by ``with``, when it is not wanted any more."""

    def __init__(self, core: _core._Subscription) -> None:
        self._core = core

    @property
    def epoch(self) -> int:
        """Drawn when the runtime was made: the numbers of events mean something only within one."""
        return self._core.epoch()

    @property
    def lost(self) -> int:
        """How many events were lost so far."""
        return self._core.lost()

    def next(self, timeout: float | timedelta | None = None) -> Activity | Lost | None:
        """The next one, waiting for it. ``None``: the runtime is closed, and there is nothing more. A ``TimeoutError`` is raised if nothing comes in
        time."""
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
                # If the loop is closed, nobody waits there.
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
        """Wants nothing any more."""
        self._core.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(told: tuple[str | None, int] | bool | None) -> Activity | Lost | None:
    """What was told, of its parts."""
    if not isinstance(told, tuple):
        return None
    text, lost = told
    if text is None:
        return Lost(lost)
    event = json.loads(text)
    # Nanoseconds are more than a datetime has.
    event["ts"] = datetime.fromisoformat(event["ts"][:26] + "+00:00")
    return Activity(**{"tid": None, **event})
