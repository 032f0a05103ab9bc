"""The command ``python bench/python``: reads its arguments, takes the measures, and prints
them.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import tiffany

from . import process, report
from .harness import Contender, Measure, Missing, Mode, Sample, take_turns
from .measures import MEASURES

USAGE = """\
usage: python bench/python [--json] [--quick] [--only NAME] [--dir D] [MEASURE...]

  --json    one JSON object a line instead of tables
  --quick   a short run that shows it still works; its figures mean nothing
  --only    one contender alone (tiffany, uvloop, …), for a profiler
  --dir     where the durable ones write; the system's directory for temporary files if not given
  MEASURE   which ones; all if none is named
"""


class Refused(Exception):
    """The command line is invalid."""


@dataclass
class Asked:
    """The options from the command line."""

    mode: Mode = Mode.FULL
    json: bool = False
    only: str | None = None
    directory: Path | None = None
    help: bool = False
    measures: list[str] = field(default_factory=list)


def read_arguments(arguments: Sequence[str]) -> Asked:
    """Reads the command line; raises :class:`Refused` with the reason."""
    asked = Asked()
    rest = iter(arguments)
    for argument in rest:
        match argument:
            case "--json":
                asked.json = True
            case "--quick":
                asked.mode = Mode.QUICK
            case "--only":
                asked.only = _value(rest, "`--only` needs the name of a contender")
            case "--dir":
                asked.directory = Path(_value(rest, "`--dir` needs a directory"))
            case "-h" | "--help":
                asked.help = True
            case _ if argument.startswith("-"):
                raise Refused(f"there is no option `{argument}`")
            case _:
                asked.measures.append(argument)
    return asked


def _value(rest: Iterator[str], why: str) -> str:
    value = next(rest, None)
    if value is None or value.startswith("-"):
        raise Refused(why)
    return value


def choose(asked: Asked) -> list[Measure]:
    """Returns the requested measures with the requested contenders."""
    known = [measure.name for measure in MEASURES]
    for name in asked.measures:
        if name not in known:
            raise Refused(f"there is no measure `{name}`; there are {', '.join(known)}")
    chosen = [one for one in MEASURES if not asked.measures or one.name in asked.measures]
    if asked.only is None:
        return chosen
    everybody = dict.fromkeys(one.name for measure in MEASURES for one in measure.contenders)
    if asked.only not in everybody:
        names = ", ".join(everybody)
        raise Refused(f"there is no contender `{asked.only}`; there are {names}")
    alone = [
        replace(one, contenders=tuple(c for c in one.contenders if c.name == asked.only))
        for one in chosen
    ]
    chosen = [measure for measure in alone if measure.contenders]
    if not chosen:
        raise Refused(f"`{asked.only}` takes no part in {', '.join(asked.measures)}")
    return chosen


def versions(measures: Sequence[Measure]) -> str:
    """Returns the contenders and their versions in one line."""
    packages = dict.fromkeys(p for one in measures for c in one.contenders for p in c.needs)
    found = [f"{name} {version}" for name in packages if (version := process.version(name))]
    return ", ".join(
        [f"tiffany {tiffany.__version__}", f"Python {platform.python_version()}", *found]
    )


def take(asked: Asked, measures: Sequence[Measure]) -> bool:
    """Takes the measures and prints them. Returns whether every installed contender worked."""
    well = True
    if not asked.json:
        print(versions(measures) + "\n", flush=True)
    # All of it is removed at the end only: ext4 is slow to make files where many were just removed.
    with tempfile.TemporaryDirectory(prefix="tiffany-bench-", dir=asked.directory) as root:
        numbers = count()

        def sample(measure: Measure, contender: Contender) -> Sample | Missing:
            fresh = Path(root) / f"{next(numbers)}-{measure.name}-{contender.name}"
            fresh.mkdir()
            os.sync()  # So that nobody pays for what the one before him wrote.
            return process.sample(measure, contender, asked.mode, fresh)

        for measure in measures:
            figures = take_turns(measure, asked.mode, sample)
            well &= all(one.missing is None or one.missing.absent for one in figures)
            if asked.json:
                shown = report.as_json(measure, figures)
            elif asked.mode is Mode.QUICK:
                # It has no figures worth a look.
                shown = report.worked(measure, figures)
            else:
                shown = report.table(measure, figures)
            print(shown, flush=True)
    return well


def main(arguments: Sequence[str]) -> int:
    """Runs the command. Returns 0, 1 if an installed contender could not be measured, or 2 if the
    command line is invalid.
    """
    try:
        asked = read_arguments(arguments)
        if asked.help:
            print(f"{USAGE}\nmeasures: {' '.join(measure.name for measure in MEASURES)}")
            return 0
        if asked.directory is not None and not asked.directory.is_dir():
            raise Refused(f"there is no directory `{asked.directory}`")
        return 0 if take(asked, choose(asked)) else 1
    except Refused as refused:
        print(f"bench/python: {refused}\n\n{USAGE}", end="", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _end(signal_number: int, _frame: object) -> None:
    """Ends cleanly on a signal: ends the samples too, and removes their files."""
    sys.exit(128 + signal_number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
