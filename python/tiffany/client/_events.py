"""A stream of events that continues after the connection or the process was lost, and says what was
missed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tiffany._activity import Activity, Lost, event_of
from tiffany.client import _failures
from tiffany.client._io import Closed, Program, action
from tiffany.client._peer import Peer, Stream
from tiffany.errors import LostDaemonError

ENDS = ("Completed", "Failed", "Cancelled")
"""The stages with which a run ends."""
_FIRST_PAUSE, _MAX_PAUSE = 0.05, 1.0


@dataclass(frozen=True)
class Restarted:
    """Another process serves the events from here on, because the one before it ended.

    Events that the earlier process reported after the last one received are not known. The numbers
    start again; everything that the new process knows follows.
    """

    epoch: int


Item = Activity | Lost | Restarted


class EventReader:
    """Reads the events of a peer."""

    def __init__(self, peer: Peer, wanted: dict[str, Any]) -> None:
        self._peer = peer
        self._wanted = wanted
        self._stream: Stream | None = None
        self._epoch: int | None = None
        self._last: tuple[int, int] | None = None
        self._is_over = False
        self._is_closed = False

    def open(self) -> Program[Restarted | None]:
        """Connects, for as long as the peer may be away. Says if it is another process now."""
        until = time.monotonic() + self._peer.retry
        pause = _FIRST_PAUSE
        while True:
            try:
                self._stream = yield from self._peer.stream(self._wanted, self._last)
                break
            except (OSError, Closed) as error:
                if _failures.is_tls(error):
                    raise _failures.tls(self._peer.where, error) from error
                why: BaseException = error
            except LostDaemonError as error:
                why = error
            except Exception as error:
                # A daemon that is starting or ending says so, and can be asked again.
                if getattr(error, "code", None) not in ("TFY0159", "TFY0161", "TFY0250"):
                    raise
                why = error
            if time.monotonic() >= until:
                raise _failures.lost(self._peer.where, why, self._peer.retry, False) from why
            yield action("sleep", pause)
            pause = min(pause * 2, _MAX_PAUSE)
        before, self._epoch = self._epoch, self._stream.epoch
        if before is None:
            first = self._wanted.get("from")
            # Where it continues if the connection is lost before anything came.
            after = self._stream.next_seq if first is None else max(first, 1)
            self._last = (self._epoch, after - 1)
            return None
        if before == self._epoch:
            return None
        self._last = (self._epoch, 0)
        return Restarted(self._epoch)

    def next(self, limit: float | None = None) -> Program[Item | None]:
        """Returns what comes next. ``None``: the run has ended, the reader was closed, or nothing
        came within the limit.
        """
        while not self._is_over and not self._is_closed:
            if self._stream is None:
                restarted = yield from self.open()
                if restarted is not None:
                    return restarted
            stream = self._stream
            assert stream is not None
            try:
                kind, told = yield from stream.next(limit)
            except (OSError, Closed) as error:
                if limit is not None and isinstance(error, TimeoutError):
                    return None
                if _failures.is_tls(error):
                    raise _failures.tls(self._peer.where, error) from error
                stream.close()
                self._stream = None
                continue
            if kind == "event":
                return self._event(told)
            if kind == "lost":
                return Lost(told)
            if kind == "failed":
                raise told
        return None

    def _event(self, told: dict[str, Any]) -> Activity:
        event = event_of(told)
        self._last = (self._epoch or 0, event.seq)
        is_end = event.tid is None and not event.ghost and event.stage in ENDS
        self._is_over = is_end and self._wanted.get("run") is not None
        return event

    def close(self) -> None:
        """Ends it."""
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()


def wanted(
    run: str | None,
    from_seq: int | None,
    every_turn: bool,
    ghosts: bool,
    *,
    ends: bool = False,
) -> dict[str, Any]:
    """Returns which events are wanted, in the form of the socket."""
    asked: dict[str, Any] = {
        "run": run,
        "from": from_seq,
        "detail": "all" if every_turn else "notable",
        "ghosts": ghosts,
    }
    return {**asked, "ends": True} if ends else asked
