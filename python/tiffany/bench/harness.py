"""What a measure is, and the turns its contenders take.

It knows nothing of what is measured, nor of how a sample is taken.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

OURS = "tiffany"


class Mode(enum.Enum):
    """How long a run may take."""

    #: Sizes and rounds for figures that mean something.
    FULL = "full"
    #: Just enough to see that everything still works.
    QUICK = "quick"

    def pick(self, full: T, quick: T) -> T:
        """The size for this mode."""
        return full if self is Mode.FULL else quick


class Better(enum.Enum):
    """Which way is good."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True)
class OfBest:
    """Target: so many times the figure of the best peer in this run."""

    factor: float


@dataclass(frozen=True)
class Of:
    """Target: so many times the figure of this one."""

    name: str
    factor: float


@dataclass(frozen=True)
class Figure:
    """Target: this figure."""

    limit: float


@dataclass(frozen=True)
class Beside:
    """Target: this figure in a column beside the main one; lower is better there."""

    column: str
    limit: float


@dataclass(frozen=True)
class OfBeside:
    """Target: so many times our own figure in a column beside the main one."""

    column: str
    factor: float


Target = OfBest | Of | Figure | Beside | OfBeside


@dataclass(frozen=True)
class Sample:
    """One figure, and what else was seen while it was taken."""

    value: float
    beside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """Why there is no sample."""

    why: str
    #: It is only not installed; otherwise something went wrong.
    absent: bool = False


@dataclass(frozen=True)
class Contender:
    """One that takes part in a measure."""

    name: str
    #: Takes one sample. It may write into the directory, which is empty and its own.
    take: Callable[[Mode, Path], Sample]
    #: The packages of PyPI it needs.
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """What is measured, of whom, and what is wanted."""

    name: str
    what: str
    unit: str
    better: Better
    targets: tuple[Target, ...]
    rounds: int
    contenders: tuple[Contender, ...]


@dataclass
class Figures:
    """All samples of one contender."""

    name: str
    samples: list[Sample] = field(default_factory=list)
    missing: Missing | None = None

    def median(self) -> float | None:
        """The figure that is shown."""
        return _median([sample.value for sample in self.samples])

    def spread(self) -> tuple[float, float] | None:
        """The lowest and the highest sample."""
        values = [sample.value for sample in self.samples]
        return (min(values), max(values)) if values else None

    def columns(self) -> list[str]:
        """The names of the columns beside the main one."""
        return list(self.samples[0].beside) if self.samples else []

    def beside(self, column: str) -> float | None:
        """The median of a column beside the main one."""
        return _median([s.beside[column] for s in self.samples if column in s.beside])


def take_turns(
    measure: Measure, mode: Mode, take: Callable[[Measure, Contender], Sample | Missing]
) -> list[Figures]:
    """Takes the samples: A B C A B C …, so that a slow minute of the machine meets all of them.

    Who fails once is not asked again: the next failure would take as long and say the same.
    """
    turns = [(contender, Figures(contender.name)) for contender in measure.contenders]
    for _ in range(mode.pick(measure.rounds, 1)):
        for contender, figures in turns:
            if figures.missing is not None:
                continue
            taken = take(measure, contender)
            if isinstance(taken, Missing):
                figures.missing = taken
            else:
                figures.samples.append(taken)
    return [figures for _, figures in turns]


def ns_each(seconds: float, operations: int) -> float:
    """Nanoseconds for each of so many operations."""
    return seconds * 1e9 / operations


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
