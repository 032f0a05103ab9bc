"""`crash_everywhere`: runs a workflow on a simulated machine that crashes at one place after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from tiffany import _core
from tiffany._arguments import bad
from tiffany._settings import RunSettings, core_settings, shows_settings
from tiffany.durable import _workflows


@dataclass(frozen=True)
class Attempt:
    """An attempt at a step that was really started."""

    name: str
    """The name of the step."""
    kind: str
    """The kind of the step: `idempotent`, `at_most_once`, `transactional` or `pure`."""
    key: str
    """The key of the step, the same in all attempts."""
    number: int
    """The number of the attempt, from 1."""
    life: int
    """The life of the machine in which it was started, from 1."""


@dataclass(frozen=True)
class Seen:
    """The result of one simulation."""

    world: Any
    """The object that `world` created for it."""
    attempts: list[Attempt]
    """All attempts at steps, in the order in which they were started, in all lives of the machine.
    """
    crashes: int
    """The number of crashes of the machine."""
    value: Any
    """The return value of the workflow."""
    error: str | None
    """The error with which it ended instead."""

    def times(self, step: _core.Step[..., Any] | str) -> int:
        """Returns how often a step was started."""
        name = step if isinstance(step, str) else step.name
        return sum(attempt.name == name for attempt in self.attempts)


@dataclass(frozen=True)
class Report:
    """The statistics of a successful test."""

    seeds: int
    """The number of seeds tried; each produces another order of events."""
    operations: int
    """The number of disk operations in the undisturbed simulations."""
    steps: int
    """The number of attempts at steps in the undisturbed simulations."""
    simulations: int
    """The number of disturbed simulations."""
    crashes: int
    """The number of crashes and disk failures in the disturbed simulations."""
    refused: int
    """How often a damaged log was refused with a message."""


class Quiet(_workflows.Functions):
    """The functions of runs in tests where logs are damaged on purpose."""

    def paused(self, run: str, error: str) -> None:
        pass


@shows_settings(RunSettings)
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
    """Checks that a durable workflow survives a crash at every place.

    It runs the workflow on a simulated machine, first undisturbed, then again and again with a
    crash at every disk operation, after every record, and before every attempt at a step. After
    each crash the workflow is resumed, and it must reach the same outcome, do only once what may be
    done once, and leave the same log. The first violation is raised as `NotCrashProofError`, with
    the simulation that shows it; `only` repeats that one.

    The workflow is a function and its arguments, or a program: ``crash_everywhere(order, "tea")``
    or ``crash_everywhere(order("tea"))``. Its steps are really executed, on this thread, in every
    simulation; ``world`` creates the object that they act on, again for each simulation. ``holds``
    is called at the end of each with a `Seen`, and asserts what else must be true.

    ``answer`` returns the values of external promises, by their number in the run from 0; an
    exception that it raises fails the promise. ``messages`` are sent to the run, each as a delay in
    seconds, a name and a value. If the outcome of a workflow depends on when things happen, set
    ``may_differ``; only ``holds`` then decides what is correct. Without ``faults`` the machine
    crashes, but its disk does not fail and flips no bits. ``at_most`` limits the number of crashes,
    which are drawn at random for each of the ``seeds``.

    >>> from tiffany import step, workflow
    >>> from tiffany.calls import Sleep
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
        "settings": core_settings(Quiet([function]), settings),
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
    """Returns the function of a workflow, its name, and its encoded input."""
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
