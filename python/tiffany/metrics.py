"""What a runtime has counted and measured: what ``Runtime.metrics`` gives. The book's chapter "Metrics" says what each one means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Histogram", "Metric", "Metrics", "Sample"]


@dataclass(frozen=True)
class Histogram:
    """How often which sizes were seen."""

    bounds: tuple[float, ...]
    """Where each bucket ends; a size that is equal belongs to it."""
    counts: tuple[int, ...]
    """How often a size was in each bucket, and beyond the last."""
    sum: float
    """What all sizes add up to."""

    @property
    def count(self) -> int:
        """How many sizes were seen."""
        return sum(self.counts)


@dataclass(frozen=True)
class Sample:
    """One value of a metric."""

    labels: Mapping[str, str]
    """What tells it from the others of its metric."""
    value: float | Histogram
    """What is measured."""


@dataclass(frozen=True)
class Metric:
    """One metric: its values differ in their labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Metrics:
    """What a runtime has counted and measured up to now. ``str`` gives it as Prometheus reads it.

    >>> import tiffany
    >>> with tiffany.Runtime() as runtime:
    ...     metrics = runtime.metrics()
    >>> metrics.value("tiffany_runs_started_total", kind="durable")
    0.0
    """

    metrics: tuple[Metric, ...]
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def value(self, name: str, **labels: str) -> float | Histogram | None:
        """The value of a metric with these labels; ``None`` if there is none."""
        for metric in self.metrics:
            for sample in metric.samples if metric.name == name else ():
                if sample.labels == labels:
                    return sample.value
        return None


def _read(told: tuple[str, str]) -> Metrics:
    """Makes objects of what the compiled part tells: a text, and the same as JSON."""
    text, families = told
    return Metrics(tuple(_metric(family) for family in json.loads(families)["families"]), text)


def _metric(family: dict[str, Any]) -> Metric:
    samples = tuple(_sample(sample) for sample in family["samples"])
    return Metric(family["name"], family["kind"], family["help"], samples)


def _sample(sample: dict[str, Any]) -> Sample:
    labels: dict[str, str] = sample.get("labels", {})
    seen = sample.get("histogram")
    if seen is None:
        return Sample(labels, float(sample["value"]))
    return Sample(labels, Histogram(tuple(seen["bounds"]), tuple(seen["counts"]), seen["sum"]))
