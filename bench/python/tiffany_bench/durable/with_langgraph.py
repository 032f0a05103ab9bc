"""LangGraph with its SQLite saver. As a program, ``with_langgraph.py DIR`` starts or resumes a run
whose steps each write their number.

A step is a node that a conditional edge leads back to. Settings: ``SqliteSaver`` with threads (its
``async`` version took twice as long), which puts the database into WAL mode with ``synchronous`` at
its default FULL; and ``durability="sync"``, so that a step is on the disk before the next one
starts, as in tiffany.
"""

import os
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any, TypedDict

NEVER = 1_000_000
#: Runs that are under way at once. 8, 32 and 200 were the same here.
THREADS = 8


class State(TypedDict):
    """The state that a run carries from step to step."""

    number: int
    count: int
    total: int


def _compile(directory: Path, step: Callable[[int], int]) -> Any:
    """Returns a graph that executes this step this many times."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    def node(state: State) -> dict[str, int]:
        number = state["number"]
        return {"number": number + 1, "total": state["total"] + step(number)}

    def onwards(state: State) -> str:
        return "step" if state["number"] < state["count"] else END

    builder = StateGraph(State)
    builder.add_node("step", node)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", onwards, ["step", END])
    # It has a lock of its own around the connection.
    connection = sqlite3.connect(directory / "langgraph.sqlite", check_same_thread=False)
    [synchronous] = connection.execute("PRAGMA synchronous").fetchone()
    assert synchronous == 2, "commits would not wait for the disk"
    return builder.compile(checkpointer=SqliteSaver(connection))


def _invoke(graph: Any, name: str, given: State | None) -> int:
    config = {"configurable": {"thread_id": name}, "recursion_limit": NEVER + 10}
    total: int = graph.invoke(given, config, durability="sync")["total"]
    return total


def _given(count: int) -> State:
    return {"number": 0, "count": count, "total": 0}


def one_run(directory: Path, warm: int, steps: int) -> float:
    """Returns the seconds that this many steps of one run take, after a few to warm up."""
    moments: list[float] = []

    def step(number: int) -> int:
        moments.append(perf_counter())
        return number

    graph = _compile(directory, step)
    total = warm + steps + 1
    assert _invoke(graph, "run", _given(total)) == total * (total - 1) // 2
    return moments[-1] - moments[warm]


def many_runs(directory: Path, warm: int, runs: int, steps: int) -> float:
    """Returns the seconds that this many concurrent runs take, with this many steps each, after
    some others.
    """
    graph = _compile(directory, lambda number: number)

    def all_at_once(name: str, runs: int) -> float:
        start = perf_counter()
        names = [f"{name} {run}" for run in range(runs)]
        for total in threads.map(lambda name: _invoke(graph, name, _given(steps)), names):
            assert total == steps * (steps - 1) // 2
        return perf_counter() - start

    with ThreadPoolExecutor(THREADS) as threads:
        all_at_once("before", warm)
        return all_at_once("run", runs)


def shown_steps(directory: Path) -> None:
    """Starts or resumes an endless run."""

    def step(number: int) -> int:
        os.write(1, b"%d\n" % number)
        return number

    graph = _compile(directory, step)
    known = graph.get_state({"configurable": {"thread_id": "run"}}).values
    _invoke(graph, "run", None if known else _given(NEVER))


if __name__ == "__main__":
    shown_steps(Path(sys.argv[1]))
