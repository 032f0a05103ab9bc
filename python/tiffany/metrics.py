"""The metrics of a runtime, as returned by ``Runtime.metrics``. The chapter "Metrics" of the book
describes each one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Histogram", "Metric", "Metrics", "Sample"]


@dataclass(frozen=True)
class Histogram:
    """A distribution of observed sizes."""

    bounds: tuple[float, ...]
    """The upper bound of each bucket, inclusive."""
    counts: tuple[int, ...]
    """The number of observations in each bucket, and beyond the last one."""
    sum: float
    """The sum of all observed sizes."""

    @property
    def count(self) -> int:
        """The number of observations."""
        return sum(self.counts)


@dataclass(frozen=True)
class Sample:
    """One value of a metric."""

    labels: Mapping[str, str]
    """The labels that distinguish it from the other values of its metric."""
    value: float | Histogram
    """The measured value."""


@dataclass(frozen=True)
class Metric:
    """One metric. Its values differ in their labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Metrics:
    """The metrics of a runtime at one moment. ``str`` returns them in the Prometheus text format.

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
        """Returns the value of a metric with these labels, or ``None`` if there is none."""
        for metric in self.metrics:
            for sample in metric.samples if metric.name == name else ():
                if sample.labels == labels:
                    return sample.value
        return None


def _read(told: tuple[str, str]) -> Metrics:
    """Builds the metrics from the compiled part's output: a text, and the same as JSON."""
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
