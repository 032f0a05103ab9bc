"""Tags, attributes and deadlines of durable runs: what a run is started with, and runs as a list
has them.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tiffany._arguments import bad

Attribute = str | int | float | bool | datetime
"""The value of an attribute."""

Deadline = datetime | timedelta | float | None
"""A moment, or a time from the start of a run, in seconds if it is a number."""

OPTIONS = ("tags", "attributes", "deadline")
"""The names of what a run is started with besides its arguments."""


def values(recorded: Mapping[str, Any]) -> dict[str, Attribute]:
    """Reads attributes as a list of runs has them.

    >>> values({"amount": 17, "due": {"time": "2026-11-05T09:41:00Z"}})
    {'amount': 17, 'due': datetime.datetime(2026, 11, 5, 9, 41, tzinfo=datetime.timezone.utc)}
    """
    return {
        name: datetime.fromisoformat(value["time"]) if isinstance(value, dict) else value
        for name, value in recorded.items()
    }


def given(
    workflow: Any,
    tags: Iterable[str],
    attributes: Mapping[str, Attribute] | None,
    deadline: Any,
) -> tuple[list[str], dict[str, Attribute], Any]:
    """Checks what a run is started with. An error if it could be meant for the workflow."""
    named = zip(OPTIONS, (tags, attributes, deadline), strict=True)
    used = [name for name, value in named if value is not None and value != ()]
    if used and (callable(workflow) and not isinstance(workflow, type)):
        try:
            parameters = set(inspect.signature(workflow).parameters)
        except (TypeError, ValueError):
            parameters = set()
        for name in used:
            if name in parameters:
                raise bad(
                    f"`{name}` is an argument of the workflow and of `submit`",
                    "give the workflow's by position; by name it is that of the run",
                )
    return several_tags("`tags`", tags), _attributes(attributes), deadline


def check_durable(
    id: str | None,
    tags: Iterable[str],
    attributes: Mapping[str, Attribute] | None,
    deadline: Any,
) -> None:
    """Checks that what only durable runs have is given for a durable run."""
    if id is None and (tags or attributes or deadline is not None):
        raise bad(
            "tags, attributes and deadlines are those of durable runs",
            "give the run an `id`, or leave them out",
        )


def several_tags(what: str, tags: Iterable[str]) -> list[str]:
    """Reads tags: a list of texts, and not one text."""
    all_tags = [tags] if isinstance(tags, str) else list(tags)
    if isinstance(tags, str):
        raise bad(f"{what} is a list of texts, not {tags!r}", f"write [{tags!r}]")
    for tag in all_tags:
        if not isinstance(tag, str):
            raise bad(f"{what} is a list of texts, not of {tag!r}")
    return all_tags


def _attributes(given: Mapping[str, Attribute] | None) -> dict[str, Attribute]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise bad(f"`attributes` is a dict, not {given!r}")
    return dict(given)


def filters(attributes: Mapping[str, Attribute] | Iterable[str] | None) -> list[str]:
    """Returns conditions as texts: those that are texts, and one for each value of a dict.

    >>> filters({"amount": 17, "customer": "ada", "paid": True})
    ['amount=17', 'customer="ada"', 'paid=true']
    >>> filters(["amount>=10"])
    ['amount>=10']
    """
    if attributes is None:
        return []
    if isinstance(attributes, str):
        return [attributes]
    if isinstance(attributes, Mapping):
        return [f"{name}={_literal(value)}" for name, value in attributes.items()]
    return list(attributes)


def _literal(value: Any) -> str:
    if isinstance(value, datetime):
        utc = value.astimezone(UTC).replace(tzinfo=None)
        return utc.isoformat(timespec="microseconds") + "Z"
    if isinstance(value, str | bool | int | float):
        return json.dumps(value)
    raise bad(f"an attribute is a str, an int, a float, a bool or a datetime, not {value!r}")
