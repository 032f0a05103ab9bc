"""Which runs a list has: the filters of all lists of runs, once, in the form that a request has on
the socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from tiffany import _attributes, _core
from tiffany._arguments import bad, several, whole
from tiffany._attributes import Attribute
from tiffany._records import RunLike

STATES = (
    "live",
    "ending",
    "paused",
    "held",
    "completed",
    "failed",
    "cancelled",
    "damaged",
    "removed",
)
"""The states of runs."""
Sort = Literal["started", "ended", "id", "function"]
"""What runs are sorted by."""
MAX_LIMIT = 10_000
"""The number of runs that one page has at most."""


def run_query(
    *,
    state: str | Iterable[str] | None,
    function: str | None,
    text: str | None,
    since: datetime | str | None,
    before: datetime | str | None,
    parent: RunLike | None,
    tags: Iterable[str],
    attributes: Mapping[str, Attribute] | Iterable[str] | None,
    sort: Sort,
    descending: bool | None,
    limit: tuple[str, int],
    after: str | None = None,
) -> dict[str, Any]:
    """Returns which runs are wanted. ``limit`` comes with the name of the argument that it is.
    What is not asked for is left out, so that older processes understand the rest.
    """
    if sort not in get_args(Sort):
        raise bad(f"`sort` is not {sort!r}", f"it is one of {', '.join(get_args(Sort))}")
    name, most = limit
    if whole(f"`{name}`", most, least=1) > MAX_LIMIT:
        raise bad(f"`{name}` is at most {MAX_LIMIT}, not {most}", "ask for several pages")
    asked = {
        "function": _text("function", function),
        "text": _text("text", text),
        "since": _nanoseconds("since", since),
        "before": _nanoseconds("before", before),
        "parent": None if parent is None else _core._run_uuid(parent),
        "tags": _attributes.several_tags("`tags`", tags) or None,
        "attributes": _core._attribute_filters(_attributes.filters(attributes)) or None,
        "sort": sort,
        "descending": sort in ("started", "ended") if descending is None else bool(descending),
        "limit": most,
        "after": _text("after", after),
    }
    kept = {key: value for key, value in asked.items() if value is not None}
    return {"states": _states(state), **kept}


def _states(given: str | Iterable[str] | None) -> list[str]:
    """Checks the states of a filter.

    >>> _states("failed")
    ['failed']
    >>> _states(["live", "lost"])
    Traceback (most recent call last):
        ...
    tiffany.errors.BadArgumentError: there is no state 'lost' of runs [TFY0032]; there are live, ending, paused, held, completed, failed, cancelled, damaged, removed
    """
    wanted = [given] if isinstance(given, str) else several("state", given or ())
    for state in wanted:
        if state not in STATES:
            raise bad(f"there is no state {state!r} of runs", f"there are {', '.join(STATES)}")
    return wanted


def _nanoseconds(name: str, given: datetime | str | None) -> int | None:
    """Returns a moment of a filter in nanoseconds since 1970. A text without a time zone is in UTC,
    as on the command line; a ``datetime`` without one is local time, as in Python.

    >>> _nanoseconds("since", "2026-11-05")
    1793836800000000000
    """
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given) if isinstance(given, str) else given
        if isinstance(given, str) and at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        whole = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise bad(
            f"`{name}` is a datetime, or a text such as '2026-11-05T09:41Z', not {given!r}"
        ) from None
    seconds = whole.days * 86_400 + whole.seconds
    # Runs are of the time that 64 bits can hold, which begins in 1970 and ends in 2554.
    return min(max(0, seconds * 1_000_000_000 + whole.microseconds * 1_000), 2**64 - 1)


def _text(name: str, given: Any) -> str | None:
    if given is not None and not isinstance(given, str):
        raise bad(f"`{name}` is a text, not {given!r}")
    return given
