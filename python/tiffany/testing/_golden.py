"""Golden logs: saved logs of runs, which are compared with the current code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Unpack

from tiffany import _core
from tiffany._cli.program_file import module_name
from tiffany._records import RunLike
from tiffany._settings import RunSettings, core_settings
from tiffany.durable import _workflows
from tiffany.durable._run import run
from tiffany.errors import DivergedError, GoldenLogError
from tiffany.testing._crashes import Quiet

_ID = "golden"

# How to replace a missing or damaged log.
_RECORDED = "record it again with `pytest --golden-update`"
_CAPTURED = (
    "capture the run again with `tiffany replay RUN --capture DIR --force`, or restore the file"
)


def _only(wal: str | os.PathLike[str]) -> uuid.UUID:
    """Returns the only run of a directory."""
    logs = sorted((Path(wal) / "wal").glob("*.wal"))
    if len(logs) != 1:
        raise GoldenLogError(
            f"{os.fspath(wal)} has {len(logs)} runs; a golden log has one run [TFY0059]; name the run"
        )
    return uuid.UUID(logs[0].stem)


class GoldenLog:
    """The log of a run in a file. It is either recorded, or compared with the current code.

    With pytest it is the fixture ``golden_log``; ``pytest --golden-update`` records it.

    >>> import tempfile
    >>> from tiffany import step, workflow
    >>> @step
    ... def double(n):
    ...     return 2 * n
    >>> @workflow
    ... def twice(n):
    ...     return (yield double((yield double(n))))
    >>> with tempfile.TemporaryDirectory() as kept:
    ...     path = Path(kept) / "twice.wal"
    ...     GoldenLog(path, update=True)(twice(3))
    ...     GoldenLog(path)(twice(3))
    """

    def __init__(self, path: str | os.PathLike[str], *, update: bool = False) -> None:
        self.path = Path(path)
        """The file."""
        self.update = update
        """Whether the log is recorded."""

    def __call__(self, program: Any, **settings: Unpack[RunSettings]) -> None:
        """Runs a durable program and records its log, or runs it against the recorded log without
        executing its steps. If the two differ, `GoldenLogError` says where.
        """
        name, function, given = _workflows.of_program(program)
        if self.update:
            with tempfile.TemporaryDirectory() as directory:
                run(program, wal=directory, id=_ID, **settings)
                self._take(directory, _ID, (), (), [function], settings)
            return
        program.close()
        self._same_start(name, _workflows.encoded(name, given))
        self._replay([function], settings)

    def keep(
        self,
        wal: str | os.PathLike[str],
        run: RunLike | None = None,
        *,
        redact: Iterable[str] = (),
        leave: Iterable[str] = (),
        **settings: Unpack[RunSettings],
    ) -> None:
        """Saves the log of an existing run, or compares the code with the saved log. Without
        ``run`` it takes the only run of the directory. An unfinished run is saved as far as it has
        come.

        ``redact`` removes secrets: names of fields, or JSON pointers into a record, as for
        ``tiffany replay --capture --redact``. A run is not saved if it behaves differently from its log,
        depends on what is removed, or has it in the code's own text; ``leave`` says where in that
        text it may stay.
        """
        if not self.update:
            self._replay([], settings)
            return
        self._take(wal, _only(wal) if run is None else run, redact, leave, [], settings)

    def replay(self, app: str | os.PathLike[str]) -> None:
        """Compares the code in a file with the log, as ``tiffany --app FILE replay --file LOG``
        does: in a separate process, where the file is loaded as when its runs were started, with
        the same order of sets. `tiffany replay --capture` writes tests that call this method.
        """
        # Hides this frame in the report of a failed test.
        __tracebackhide__ = True
        self._first(_CAPTURED)
        named = module_name(os.fspath(app))
        code = os.path.normpath(app) if named is None else os.fspath(app)
        if named is None and not os.path.exists(code):
            raise GoldenLogError(
                f"there is no {code}, whose code is to be compared with the golden log {self.path} [TFY0059]; restore it, or name its new place in "
                "the test"
            )
        words = ["--app", code, "replay", "--file", os.fspath(self.path)]
        done = subprocess.run(
            [sys.executable, "-m", "tiffany", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            told = re.search(r"^error\[(TFY\d{4})\]", done.stderr, re.M)
            raise GoldenLogError(self._told(code, told[1] if told else "", done))

    def _told(self, code: str, error: str, done: subprocess.CompletedProcess[str]) -> str:
        """Builds the error message of a failed replay from its output."""
        details = f"{done.stdout}{done.stderr}"
        if error in ("TFY0036", "TFY0066"):
            what = f"the code in {code} and the golden log {self.path} differ"
            return f"{what} [TFY0059]; if the change is intended, capture the run again with `--force`\n{details}"
        if error in ("TFY0059", "TFY0105", "TFY0107"):
            # The advice below is more specific.
            details = re.sub(r"^  next: .*\n", "", details, flags=re.M)
            return f"{self.path} is not a whole log [TFY0059]; {_CAPTURED}\n{details}"
        what = f"the code in {code} cannot be compared with the golden log {self.path}"
        return f"{what} [TFY0059]; correct what is listed below\n{details}"

    def _take(
        self,
        wal: str | os.PathLike[str],
        run: RunLike,
        redact: Iterable[str],
        leave: Iterable[str],
        functions: list[_workflows.Function],
        settings: RunSettings,
    ) -> None:
        known = core_settings(Quiet(functions), settings)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _core._capture(known, wal, run, list(redact), list(leave), self.path)

    def _first(self, advice: str = _RECORDED) -> dict[str, Any]:
        if not self.path.exists():
            raise GoldenLogError(f"there is no golden log {self.path} [TFY0059]; {advice}")
        try:
            with self.path.open() as file:
                first: dict[str, Any] = json.loads(file.readline())
            first["task_id"]
        except (ValueError, KeyError, TypeError):
            raise GoldenLogError(f"{self.path} is not a log [TFY0059]; {advice}") from None
        return first

    def _same_start(self, name: str, given: str) -> None:
        """Checks that the program is the one that was recorded."""
        first = self._first()
        was = (first.get("function"), first.get("input"))
        now = (name, json.loads(given))
        if was != now:
            raise GoldenLogError(
                f"the golden log {self.path} is one of {was[0]} with the input {json.dumps(was[1])}, and this is {now[0]} with the "
                f"input {json.dumps(now[1])} [TFY0059]; if the change is intended, record it again with `pytest --golden-update`"
            )

    def _replay(self, functions: list[_workflows.Function], settings: RunSettings) -> None:
        self._first()
        known = core_settings(Quiet(functions), settings)
        try:
            _core._replay(known, self.path)
        except DivergedError as error:
            raise GoldenLogError(
                f"the code and the golden log {self.path} differ [TFY0059]; if the change is intended, record it again with "
                f"`pytest --golden-update`\n{error}"
            ) from None
