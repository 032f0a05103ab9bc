"""Questions that a program started with ``tiffany run`` asks people: they are put to the user at
the terminal, or denied where there is none, so that nothing hangs.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from tiffany import _core
from tiffany._approvals import OpenApproval
from tiffany._cli.program_file import ProgramFileError
from tiffany.errors import TiffanyError

if TYPE_CHECKING:
    from tiffany.client import Client

#: The reason for a denied question.
_NOBODY = "no person could be asked: the command that waits for the run had no terminal, or was told to deny"
#: The intervals between checks for questions, in seconds: short at first, then longer.
_SOON, _LATER = 0.05, 0.5


class Asking:
    """How questions are handled, and how many were denied."""

    def __init__(self, manner: Literal["ask", "deny", "wait"]) -> None:
        self.manner = manner
        self.denied = 0
        self._over = threading.Event()
        self._left: set[str] = set()

    @contextlib.contextmanager
    def of(self, connection: Client) -> Iterator[None]:
        """Handles the questions of a runtime on a separate thread until the block is left."""
        if self.manner == "wait":
            yield
            return
        looks = threading.Thread(target=self._look, args=(connection,), name="tiffany-asks")
        looks.daemon = True
        looks.start()
        try:
            yield
        finally:
            self._over.set()
            looks.join()

    def tell_if_denied(self) -> None:
        """Raises an error if the run ended without an answer that it had asked for."""
        if self.denied:
            many = "1 question" if self.denied == 1 else f"{self.denied} questions"
            message = f"{many} of the run denied, because no person could be asked"
            next_step = "run it in a terminal, or let another person decide with `--approvals wait`"
            raise ProgramFileError("TFY0186", message, next_step)

    def _look(self, connection: Client) -> None:
        wait = _SOON
        while not self._over.wait(wait):
            wait = min(2 * wait, _LATER)
            try:
                for question in connection.approvals():
                    if question.id not in self._left and not self._over.is_set():
                        self._see_to(connection, question)
                        wait = _SOON
            except TiffanyError:
                # Another answer came first, a task keeps its turn, or the runtime is about to
                # close.
                continue
            except (OSError, ValueError):
                # No input can arrive: the terminal is gone, or standard input is closed.
                self.manner = "deny"

    def _see_to(self, connection: Client, question: OpenApproval) -> None:
        if self.manner == "deny":
            connection.reject(question.id, why=_NOBODY)
            self.denied += 1
            _say(f"tiffany: denied, because no person can be asked: {question.question}")
            return
        answer = self._asked(question)
        if answer is None:
            self._left.add(question.id)
            return
        choice, why = answer
        connection.approve(question.id, choice, why=why)
        _say(f"decided: `{choice}`{f', because {why}' if why else ''}")

    def _asked(self, question: OpenApproval) -> tuple[str, str | None] | None:
        """Reads the typed answer: a choice and a reason, or nothing."""
        _say(f"\n{question.question}")
        while True:
            _say(f"{' / '.join(question.choices)} (Enter leaves it open)? ", end="")
            line = self._line()
            if not line:
                _say(
                    "it stays open: `approve` and `approve --reject` decide it, if the run has a log"
                )
                return None
            typed, _, why = line.partition(" because ")
            try:
                return pick(question.choices, typed.strip()), why.strip() or None
            except ValueError as error:
                _say(str(error))

    def _line(self) -> str:
        """Reads a typed line, or returns nothing if the run finishes first."""
        typed = b""
        while not self._over.is_set():
            # A non-daemon thread that waits in `input` would keep the process from ending.
            if select.select([sys.stdin], [], [], 0.1)[0]:
                piece = os.read(sys.stdin.fileno(), 1024)
                typed += piece
                if not piece or typed.endswith(b"\n"):
                    return typed.decode(errors="replace").strip()
        return ""


def pick(choices: Sequence[str], typed: str) -> str:
    """Finds the choice that was typed: in full, or by an unambiguous prefix.

    >>> pick(["pay", "pay half", "keep"], "k"), pick(["pay", "pay half", "keep"], "pay")
    ('keep', 'pay')
    >>> pick(["pay", "pay half", "keep"], "pa")
    Traceback (most recent call last):
        ...
    ValueError: `pa` could be `pay` or `pay half`: type more of it
    """
    if typed in choices:
        return typed
    lower = typed.lower()
    fitting = [choice for choice in choices if choice.lower() == lower]
    fitting = fitting or [choice for choice in choices if choice.lower().startswith(lower)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        all_of_them = ", ".join(f"`{choice}`" for choice in choices)
        raise ValueError(f"`{typed}` is none of its choices: {all_of_them}")
    which = " or ".join(f"`{choice}`" for choice in fitting)
    raise ValueError(f"`{typed}` could be {which}: type more of it")


def _say(text: str, end: str = "\n") -> None:
    """Prints a text so that the terminal interprets no control characters in it."""
    shown = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
    print(_core._redacted(shown), end=end, file=sys.stderr, flush=True)
