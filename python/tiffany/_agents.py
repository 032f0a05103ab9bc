"""State machines: dataclasses whose fields are the whole state of a task, so that a run of them can be written down as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, overload

from tiffany import _workflows
from tiffany._arguments import bad, known_names_only

C = TypeVar("C", bound=type)

_NAMES: dict[type, str] = {}
"""What the log calls each class."""


class Agent(Protocol):
    """What a class has to have for `agent`: it says what it wants in the state it is in, and takes the answer.

    ``failed(error)``, if there is one, takes an exception instead; without it the task ends with that.
    """

    def wants(self) -> Any:
        """A call, or ``Done(value)``. It must follow from the state alone, because after a restart it is asked again."""

    def take(self, answer: Any) -> None:
        """It has what it wanted: moves to the next state."""


@overload
def agent(cls: C, /) -> C: ...
@overload
def agent(*, name: str | None = None) -> Callable[[C], C]: ...
@known_names_only("@agent")
def agent(cls: type | None = None, /, *, name: str | None = None) -> Any:
    """Makes a dataclass known by its name, so that durable runs of its objects can be started and resumed.

    Such a run has a log that does not grow: after ``snapshot_every`` records of the `Runtime` it begins anew with the fields of the object, and after a restart nothing
    before that is done again. An object may want steps, `Sleep`, `SleepUntil`, `ReceiveMessage`, `Now`, `Random`, `NewUuid` and `Yield`.

    >>> import tempfile
    >>> from dataclasses import dataclass
    >>> from tiffany import Done, Runtime, step
    >>> @step
    ... def add_one(number):
    ...     return number + 1
    >>> @agent(name="count up")
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
            f"{cls!r} is no dataclass, whose fields would be its state",
            "put @agent above @dataclass",
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
    """What the log calls a class, if it is one of a state machine."""
    return _NAMES.get(cls) if isinstance(cls, type) else None


def made_anew(cls: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were not given and have something new in each object."""
    return {
        field.name: field.default_factory()
        for field in dataclasses.fields(cls)
        if field.init
        and field.name not in given
        and field.default_factory is not dataclasses.MISSING
    }


def state(object: Any) -> dict[str, Any]:
    """The fields of an object."""
    return {field.name: getattr(object, field.name) for field in dataclasses.fields(object)}


def restored(cls: type, fields: dict[str, Any]) -> Any:
    """An object with these fields. What an older version of the class did not have has its default."""
    given = {field.name for field in dataclasses.fields(cls) if field.init}
    made = cls(**{name: value for name, value in fields.items() if name in given})
    known = {field.name for field in dataclasses.fields(cls)}
    unknown = [name for name in fields if name not in known]
    if unknown:
        raise bad(f"`{cls.__qualname__}` has no field `{unknown[0]}`", "let it have those it had")
    for name in known - given:
        if name in fields:
            object.__setattr__(made, name, fields[name])
    return made
