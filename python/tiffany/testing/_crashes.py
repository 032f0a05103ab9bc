"""`crash_everywhere`: a workflow on a simulated machine, with a crash at one place after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from tiffany import _core, _workflows
from tiffany._arguments import bad
from tiffany._runtime import settings as core_settings
from tiffany._settings import RunSettings


@dataclass(frozen=True)
class Attempt:
    """An attempt at a step that was really begun."""

    name: str
    """The name of the step."""
    kind: str
    """What the step is: `idempotent`, `at_most_once`, `transactional` or `pure`."""
    key: str
    """Its key, the same in all attempts."""
    number: int
    """The number of the attempt, from 1."""
    life: int
    """In which life of the machine it was begun, from 1."""


@dataclass(frozen=True)
class Seen:
    """What can be seen of one simulation when it is over."""

    world: Any
    """What `world` made for it."""
    attempts: list[Attempt]
    """All attempts at steps, in the order in which they were begun, through all lives of the machine."""
    crashes: int
    """How often the machine crashed."""
    value: Any
    """What the workflow returned."""
    error: str | None
    """What it ended with instead."""

    def times(self, step: _core.Step[..., Any] | str) -> int:
        """How often a step was begun."""
        name = step if isinstance(step, str) else step.name
        return sum(attempt.name == name for attempt in self.attempts)


@dataclass(frozen=True)
class Report:
    """What was tried, when nothing was wrong."""

    seeds: int
    """How many seeds were tried; each makes another order of events."""
    operations: int
    """The operations of the disk in their undisturbed simulations."""
    steps: int
    """The attempts at steps in these."""
    simulations: int
    """How many disturbed simulations there were."""
    crashes: int
    """How often a machine crashed in them, or its disk failed."""
    refused: int
    """How often a damaged log was refused with a message."""


class Quiet(_workflows.Functions):
    """Functions of runs in tests, where logs are damaged on purpose."""

    def paused(self, run: str, error: str) -> None:
        pass


def crash_everywhere(
    workflow: Any,
    /,
    *args: Any,
    id: str = "crashed",
    world: Callable[[], Any] | None = None,
    holds: Callable[[Seen], Any] | None = None,
    answer: Callable[[int], Any] | None = None,
    messages: Iterable[tuple[float, str, Any]] = (),
    may_differ: bool = False,
    seeds: int = 1,
    at_most: int | None = None,
    faults: bool = True,
    only: str | None = None,
    **settings: Unpack[RunSettings],
) -> Report:
    """Runs a durable workflow on a simulated machine, undisturbed first, and then again and again with a crash at every operation of the
    disk, after every record, and before every attempt at a step; brought back each time, it must come to the same outcome, do what may be
    done once only once, and leave the same log. The first thing that is wrong is raised as `NotCrashProofError`, with the simulation that
    shows it; `only` repeats that one.

    The workflow is a function and its arguments, or a program: ``crash_everywhere(order, "tea")`` or ``crash_everywhere(order("tea"))``.
    Its steps are really done, on this thread, and so often; what they act upon is made anew for each simulation by ``world``.
    ``holds`` is called at the end of each with what was `Seen`, and asserts what else must hold.

    ``answer`` gives the values of external promises, by their number in the run from 0; what it raises fails the promise. ``messages`` are
    sent to the run: after so many seconds, under a name, a value. A workflow whose outcome depends on when things happen ``may_differ``: then
    only ``holds`` says what is right. Without ``faults`` the disk crashes, but does not fail and turns no bits. ``at_most`` so many crashes
    are drawn for each of the ``seeds``.

    >>> from tiffany import Sleep, step, workflow
    >>> @step
    ... def price(item):
    ...     return len(item)
    >>> @step(kind="at_most_once")
    ... def charge(amount):
    ...     return f"charged {amount}"
    >>> @workflow
    ... def order(item):
    ...     amount = yield price(item)
    ...     yield Sleep(3600)
    ...     return (yield charge(amount))
    >>> def charged_once(seen):
    ...     assert seen.times(charge) <= 1
    >>> crash_everywhere(order, "tea", holds=charged_once, at_most=20).simulations
    20
    """
    function, name, given = _started(workflow, args)
    told = {
        "function": name,
        "id": id,
        "input": given,
        "settings": core_settings(Quiet([function]), **settings),
        "messages": [(float(after), to, _core._encode(value)) for after, to, value in messages],
        "answer": None if answer is None else _answering(answer),
        "world": world,
        "holds": None if holds is None else _held(holds),
        "may_differ": may_differ,
        "seeds": seeds,
        "at_most": at_most,
        "faults": faults,
        "only": only,
    }
    return Report(*_core._crash_everywhere(told))


def _started(workflow: Any, args: tuple[Any, ...]) -> tuple[_workflows.Function, str, str]:
    """The function of a workflow, its name, and its input as it is written down."""
    if callable(workflow):
        name = _workflows.name_of(workflow)
        return workflow, name, _workflows.encoded(name, _workflows.arguments(workflow, args, {}))
    if args:
        raise bad(
            "a program has its arguments already",
            "give the function and its arguments, or the program alone",
        )
    name, function, given = _workflows.of_program(workflow)
    workflow.close()
    return function, name, _workflows.encoded(name, given)


def _answering(answer: Callable[[int], Any]) -> Callable[[int], tuple[bool, str]]:
    def answered(number: int) -> tuple[bool, str]:
        try:
            return True, _core._encode(answer(number))
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"

    return answered


def _held(holds: Callable[[Seen], Any]) -> Callable[..., None]:
    def held(
        world: Any, attempts: list[Any], crashes: int, value: str | None, error: str | None
    ) -> None:
        decoded = None if value is None else _core.decode(value)
        holds(Seen(world, [Attempt(*parts) for parts in attempts], crashes, decoded, error))

    return held
