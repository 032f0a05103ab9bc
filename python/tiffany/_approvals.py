"""Questions to people and their answers, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiffany.errors import RejectedError


@dataclass(frozen=True)
class Approval:
    """A person's answer: the choice, who decided, why and when.

    ``rejected`` is true if the choice is the last one, which is the rejection. ``by`` is the name
    of the person who decided. ``uid`` is the user id reported by the operating system, if known.
    """

    choice: str
    by: str
    why: str | None = None
    at: datetime | None = None
    uid: int | None = None
    rejected: bool = False

    def granted(self) -> Approval:
        """Returns this approval, or raises `RejectedError` with the person's name and reason if it
        is a rejection.
        """
        if not self.rejected:
            return self
        why = f": {self.why}" if self.why else ""
        raise RejectedError(
            f"{self.by} said `{self.choice}`{why} [TFY0184]; "
            "see with `show` who decided and why; change the request, and ask again"
        )


@dataclass(frozen=True)
class OpenApproval:
    """A question that waits for a person. It is decided by its ``id``."""

    id: str
    run: str
    run_id: str | None
    tid: int
    task: str | None
    question: str
    choices: tuple[str, ...]
    payload: Any
    since: datetime
    deadline: datetime | None


def moment(text: str) -> datetime:
    """Parses a time from the log. A `datetime` has a resolution of microseconds."""
    seconds, _, rest = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}.{rest[:6]:0<6}+00:00")


def approval(parts: dict[str, Any]) -> Approval:
    """Builds an answer from its parts."""
    at = parts.get("at")
    return Approval(
        choice=parts["choice"],
        by=parts["by"],
        why=parts.get("why"),
        at=None if at is None else moment(at),
        uid=parts.get("uid"),
        rejected=bool(parts.get("rejected")),
    )


def open_approval(parts: dict[str, Any]) -> OpenApproval:
    """Builds a question from its parts."""
    deadline = parts.get("deadline")
    return OpenApproval(
        id=parts["id"],
        run=parts["run"],
        run_id=parts.get("run_id"),
        tid=parts["tid"],
        task=parts.get("task"),
        question=parts["question"],
        choices=tuple(parts["choices"]),
        payload=parts.get("payload"),
        since=moment(parts["since"]),
        deadline=None if deadline is None else moment(deadline),
    )
