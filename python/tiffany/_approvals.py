"""What is asked of people, and what they answer. Nothing here does anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiffany.errors import RejectedError


@dataclass(frozen=True)
class Approval:
    """What a person answered: the choice, who decided, why and when.

    ``rejected`` says whether it is the last of the choices, which is the rejection. ``uid`` is what the system says of who decided, if that is known; ``by`` is what they
    are called.
    """

    choice: str
    by: str
    why: str | None = None
    at: datetime | None = None
    uid: int | None = None
    rejected: bool = False

    def granted(self) -> Approval:
        """The same, if it is no rejection. That is a `RejectedError` then, which says who said so and why."""
        if not self.rejected:
            return self
        why = f": {self.why}" if self.why else ""
        raise RejectedError(
            f"{self.by} said `{self.choice}`{why} [TFY0184]; "
            "see by `show` who said so and why; change what was asked for, and ask again"
        )


@dataclass(frozen=True)
class OpenApproval:
    """A question that waits for a person, and what it is decided by: its ``id``."""

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
    """A moment as the log has it. A `datetime` knows microseconds."""
    seconds, _, rest = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}.{rest[:6]:0<6}+00:00")


def approval(parts: dict[str, Any]) -> Approval:
    """An answer from its parts."""
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
    """A question from its parts."""
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
