"""What a runtime counts and measures, as Python is told it, read by Prometheus' own parser."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import tiffany
from prometheus_client.parser import text_string_to_metric_families
from tiffany import Runtime, step, workflow
from tiffany.metrics import Histogram, Metrics


@step
def pack(item: str) -> str:
    return f"{item} in a box"


@workflow
def order(item: str) -> Generator[Any, Any, str]:
    return str((yield pack(item)))


def labels(metrics: Metrics, name: str, label: str) -> set[str]:
    found = (metric for metric in metrics.metrics if metric.name == name)
    return {sample.labels[label] for metric in found for sample in metric.samples}


def check(metrics: Metrics) -> None:
    """The text says the same as the objects."""
    read = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(str(metrics))
        for sample in family.samples
    }
    seen = 0
    for metric in metrics.metrics:
        for sample in metric.samples:
            of = tuple(sorted(sample.labels.items()))
            if isinstance(sample.value, Histogram):
                assert read[f"{metric.name}_count", of] == sample.value.count
                assert read[f"{metric.name}_sum", of] == sample.value.sum
                last = tuple(sorted({**sample.labels, "le": "+Inf"}.items()))
                assert read[f"{metric.name}_bucket", last] == sample.value.count
            else:
                assert read[metric.name, of] == sample.value
            seen += 1
    assert seen > 50


def test_a_runtime_tells_what_it_did(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(order, "tea", id="one")
        assert runtime.wait(run) == "tea in a box"
        metrics = runtime.metrics()
        (done,) = labels(metrics, "tiffany_effect_retries_total", "step")
        assert done.endswith("pack")
        assert metrics.value("tiffany_effect_attempts_total", step=done, outcome="ok") == 1
        (function,) = labels(metrics, "tiffany_run_seconds", "function")
        assert function.endswith("order")
        took = metrics.value("tiffany_run_seconds", function=function)
        assert isinstance(took, Histogram) and took.count == 1
        assert metrics.value("tiffany_runs", state="over") == 1
        assert metrics.value("weather") is None
        check(metrics)


def test_another_thread_reads_them_by_the_handle(tmp_path: Path) -> None:
    told: list[Metrics] = []

    with Runtime(wal=tmp_path) as runtime:
        handle = runtime.handle
        thread = threading.Thread(target=lambda: told.append(handle.metrics()))

        async def main() -> None:
            thread.start()
            while not told:
                await tiffany.sleep(0.01)

        runtime.run(main())
        thread.join()
    (metrics,) = told
    assert metrics.value("tiffany_metrics_age_seconds") == 0
    assert metrics.value("tiffany_runs_started_total", kind="ephemeral") == 1
    check(metrics)
