"""State machines: dataclasses whose fields are the entire state of a task, so that a run of them
can be saved as a snapshot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, overload

from tiffany._arguments import bad, known_names_only
from tiffany.durable import _workflows

C = TypeVar("C", bound=type)

_NAMES: dict[type, str] = {}
"""The name of each class in the log."""


class StateMachine(Protocol):
    """The methods that a class needs for `state_machine`: ``wants`` returns the next call, and ``take``
    receives its answer.

    An optional method ``failed(error)`` receives exceptions. Without it, an exception ends the
    task.
    """

    def wants(self) -> Any:
        """Returns the next call, or ``Done(value)``. The result must depend only on the fields,
        because the method is called again after a restart.
        """

    def take(self, answer: Any) -> None:
        """Receives the answer to the call and moves to the next state."""


@overload
def state_machine(cls: C, /) -> C: ...
@overload
def state_machine(*, name: str | None = None) -> Callable[[C], C]: ...
@known_names_only("@state_machine")
def state_machine(cls: type | None = None, /, *, name: str | None = None) -> Any:
    """Registers a dataclass as a state machine, so that durable runs of its objects can be started
    and resumed.

    The log of such a run does not grow without limit: after ``snapshot_every`` records (see
    `Runtime`), it starts again with the fields of the object, and nothing before that is repeated
    after a restart. ``wants`` may return steps, `Sleep`, `SleepUntil`, `ReceiveMessage`, `Now`,
    `Random`, `NewUuid` and `Yield`.

    >>> import tempfile
    >>> from dataclasses import dataclass
    >>> from tiffany import Done, Runtime, step
    >>> @step
    ... def add_one(number):
    ...     return number + 1
    >>> @state_machine(name="count up")
    ... @dataclass
    ... class CountUp:
    ...     until: int
    ...     number: int = 0
    ...     def wants(self):
    ...         return Done(self.number) if self.number == self.until else add_one(self.number)
    ...     def take(self, answer):
    ...         self.number = answer
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal, snapshot_every=10) as runtime:
    ...         runtime.wait(runtime.submit(CountUp, 100, id="count-1"))
    100
    """
    if cls is None:
        return lambda cls: _register(cls, name)
    return _register(cls, name)


def _register(cls: Any, name: str | None) -> Any:
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise bad(
            f"{cls!r} is not a dataclass, whose fields would be its state",
            "put @state_machine above @dataclass",
        )
    for method in ("wants", "take"):
        if not callable(getattr(cls, method, None)):
            raise bad(f"the state machine `{cls.__qualname__}` has no method `{method}`")
    if name is not None and not (isinstance(name, str) and name):
        raise bad(f"`name` of a state machine is a text, not {name!r}")
    chosen = _workflows.add(cls, name)
    _NAMES[cls] = chosen
    return cls


def name_of(cls: Any) -> str | None:
    """Returns the name of a state machine's class in the log, or ``None`` for any other class."""
    return _NAMES.get(cls) if isinstance(cls, type) else None


def made_anew(cls: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values for the fields that were not given and have a default factory."""
    return {
        field.name: field.default_factory()
        for field in dataclasses.fields(cls)
        if field.init
        and field.name not in given
        and field.default_factory is not dataclasses.MISSING
    }


def state(object: Any) -> dict[str, Any]:
    """Returns the fields of an object."""
    return {field.name: getattr(object, field.name) for field in dataclasses.fields(object)}


def restored(cls: type, fields: dict[str, Any]) -> Any:
    """Returns an object with these fields. Fields that an older version of the class did not have
    get their default.
    """
    given = {field.name for field in dataclasses.fields(cls) if field.init}
    made = cls(**{name: value for name, value in fields.items() if name in given})
    known = {field.name for field in dataclasses.fields(cls)}
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise bad(
            f"`{cls.__qualname__}` has no field `{unknown[0]}`", "restore the fields that it had"
        )
    for name in known - given:
        if name in fields:
            object.__setattr__(made, name, fields[name])
    return made
