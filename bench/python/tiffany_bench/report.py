"""Prints figures: a table for people, or one JSON object per line for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from .harness import (
    OURS,
    Beside,
    Better,
    Figure,
    Figures,
    Measure,
    Of,
    OfBeside,
    OfBest,
    Target,
)


def as_json(measure: Measure, all_figures: Sequence[Figures]) -> str:
    """Returns one object, as ``tiffany-bench --json`` writes it:

    ``{"measure":…,"unit":…,"better":…,"tiffany":…,"peers":{…},"spread":{…},…}``.
    """
    line: dict[str, object] = {
        "measure": measure.name,
        "unit": measure.unit,
        "better": measure.better.value,
        OURS: _number(_median_of(OURS, all_figures)),
        "peers": {one.name: _number(one.median()) for one in all_figures if one.name != OURS},
        "spread": {
            one.name: [_number(end) for end in spread]
            for one in all_figures
            if (spread := one.spread()) is not None
        },
    }
    for column in _columns(all_figures):
        line[column] = {
            one.name: _number(beside)
            for one in all_figures
            if (beside := one.beside(column)) is not None
        }
    missing = {one.name: one.missing.why for one in all_figures if one.missing is not None}
    if missing:
        line["not_measured"] = missing
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False)


def worked(measure: Measure, all_figures: Sequence[Figures]) -> str:
    """Returns who took part in a measure, without figures."""
    there = ", ".join(one.name for one in all_figures if one.missing is None)
    lines = [f"{measure.name:<14} works: {there or 'nobody'}"]
    for one in all_figures:
        if one.missing is not None:
            lines.append(f"{'':<14} not {one.name}: {one.missing.why}")
    return "\n".join(lines)


def table(measure: Measure, all_figures: Sequence[Figures]) -> str:
    """Returns a small table: median, spread, ratio to tiffany, and additional columns; then the
    targets.
    """
    lines = [f"{measure.name}: {measure.what} ({measure.unit}, {measure.better.value} is better)"]
    columns = _columns(all_figures)
    heads = "".join(f"{column:>14}" for column in columns)
    lines.append(f"  {'':<10}{'median':>12}{'lowest – highest':>26}{'ratio':>10}{heads}")
    ours = _median_of(OURS, all_figures)
    for one in all_figures:
        median, spread = one.median(), one.spread()
        if median is None or spread is None:
            why = one.missing.why if one.missing is not None else "no sample"
            lines.append(f"  {one.name:<10}not measured: {why}")
            continue
        ends = f"{_short(spread[0])} – {_short(spread[1])}"
        ratio = f"{median / ours:.2f}" if ours else "–"
        beside = "".join(f"{_short(one.beside(column)):>14}" for column in columns)
        lines.append(f"  {one.name:<10}{_short(median):>12}{ends:>26}{ratio:>10}{beside}")
        if one.missing is not None:
            lines.append(f"  {'':<10}gave up: {one.missing.why}")
    lines.extend(f"  target: {_verdict(t, measure.better, all_figures)}" for t in measure.targets)
    return "\n".join(lines) + "\n"


def _columns(all_figures: Iterable[Figures]) -> list[str]:
    """Returns every column that a contender has, in order of appearance."""
    return list(dict.fromkeys(column for one in all_figures for column in one.columns()))


def _median_of(name: str, all_figures: Iterable[Figures]) -> float | None:
    return next((one.median() for one in all_figures if one.name == name), None)


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _short(value: float | None) -> str:
    if value is None:
        return "–"
    if abs(value) >= 1_000:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def _verdict(target: Target, better: Better, all_figures: Sequence[Figures]) -> str:
    """Returns a target in words, and whether it is reached."""
    bound = "at most" if better is Better.LOWER else "at least"
    ours = _median_of(OURS, all_figures)
    match target:
        case OfBest(factor):
            best = _best_peer(better, all_figures)
            if best is None:
                return f"{bound} {factor:g} of the best peer: no peer measured"
            words = f"{bound} {factor:g} of the best peer here ({best[0]})"
            return _judge(words, _ratio(ours, best[1]), factor, better)
        case Of(name, factor):
            ratio = _ratio(ours, _median_of(name, all_figures))
            return _judge(f"{bound} {factor:g} of {name}", ratio, factor, better)
        case Figure(limit):
            return _judge(f"{bound} {limit:g}", ours, limit, better)
        case Beside(column, limit):
            is_ = _our_beside(column, all_figures)
            return _judge(f"{column} at most {limit:g}", is_, limit, Better.LOWER)
        case OfBeside(column, factor):
            ratio = _ratio(ours, _our_beside(column, all_figures))
            return _judge(f"{bound} {factor:g} of its own {column}", ratio, factor, better)


def _our_beside(column: str, all_figures: Iterable[Figures]) -> float | None:
    return next((one.beside(column) for one in all_figures if one.name == OURS), None)


def _ratio(ours: float | None, other: float | None) -> float | None:
    return ours / other if ours is not None and other else None


def _judge(words: str, is_: float | None, limit: float, better: Better) -> str:
    if is_ is None:
        return f"{words}: not measured"
    reached = is_ <= limit if better is Better.LOWER else is_ >= limit
    return f"{words}: {is_:.2f}, {'reached' if reached else 'NOT reached'}"


def _best_peer(better: Better, all_figures: Iterable[Figures]) -> tuple[str, float] | None:
    medians = [
        (one.name, median)
        for one in all_figures
        if one.name != OURS and (median := one.median()) is not None
    ]
    pick = min if better is Better.LOWER else max
    return pick(medians, key=lambda peer: peer[1]) if medians else None
