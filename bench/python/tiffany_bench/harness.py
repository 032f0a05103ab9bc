"""The definition of a measure, and the order in which its contenders are sampled.

This module knows nothing about what is measured or how a sample is taken.
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
    """How long the benchmarks may take."""

    #: Sizes and rounds for figures that mean something.
    FULL = "full"
    #: Just enough to see that everything still works.
    QUICK = "quick"

    def pick(self, full: T, quick: T) -> T:
        """Returns the size for this mode."""
        return full if self is Mode.FULL else quick


class Better(enum.Enum):
    """Whether higher or lower is better."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True)
class OfBest:
    """A target: a multiple of the figure of the best peer in this run."""

    factor: float


@dataclass(frozen=True)
class Of:
    """A target: a multiple of the figure of this contender."""

    name: str
    factor: float


@dataclass(frozen=True)
class Figure:
    """A target: this figure."""

    limit: float


@dataclass(frozen=True)
class Beside:
    """A target: this figure in an additional column, where lower is better."""

    column: str
    limit: float


@dataclass(frozen=True)
class OfBeside:
    """A target: a multiple of tiffany's own figure in an additional column."""

    column: str
    factor: float


Target = OfBest | Of | Figure | Beside | OfBeside


@dataclass(frozen=True)
class Sample:
    """One figure, and the additional columns measured with it."""

    value: float
    beside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """The reason why there is no sample."""

    why: str
    #: It is only not installed; otherwise something went wrong.
    absent: bool = False


@dataclass(frozen=True)
class Contender:
    """A participant in a measure."""

    name: str
    #: Takes one sample. It may write into the directory, which is empty and its own.
    take: Callable[[Mode, Path], Sample]
    #: The packages of PyPI it needs.
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measure:
    """A measure with its contenders and targets."""

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
        """The median, which is the figure that is shown."""
        return _median([sample.value for sample in self.samples])

    def spread(self) -> tuple[float, float] | None:
        """The lowest and the highest sample."""
        values = [sample.value for sample in self.samples]
        return (min(values), max(values)) if values else None

    def columns(self) -> list[str]:
        """The names of the additional columns."""
        return list(self.samples[0].beside) if self.samples else []

    def beside(self, column: str) -> float | None:
        """Returns the median of an additional column."""
        return _median([s.beside[column] for s in self.samples if column in s.beside])


def take_turns(
    measure: Measure, mode: Mode, take: Callable[[Measure, Contender], Sample | Missing]
) -> list[Figures]:
    """Takes the samples in the order A B C A B C …, so that a slow minute of the machine affects
    all of them.

    A contender that fails once is not sampled again: the next failure would take as long and say
    the same.
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
    """Returns the nanoseconds per operation."""
    return seconds * 1e9 / operations


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
