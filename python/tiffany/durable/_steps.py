"""``@step``: functions whose calls are steps of durable runs. This module checks the options; the
rest is in Rust.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from tiffany import _core
from tiffany._arguments import bad, check_names, seconds, whole
from tiffany._records import Backoff
from tiffany.durable import _transactions

_P = ParamSpec("_P")
_T = TypeVar("_T")
Seconds = float | int | timedelta
Kind = Literal["idempotent", "at_most_once", "pure"]
KINDS = ("idempotent", "at_most_once", "transactional", "pure")


class _Decorator(Protocol):
    """Turns functions into steps."""

    @overload
    def __call__(
        self, function: Callable[_P, Coroutine[Any, Any, _T]], /
    ) -> _core.Step[_P, _T]: ...
    @overload
    def __call__(self, function: Callable[_P, _T], /) -> _core.Step[_P, _T]: ...


class _Transactional(Protocol):
    """Turns functions that take a connection first into steps."""

    def __call__(self, function: Callable[Concatenate[Any, _P], _T], /) -> _core.Step[_P, _T]: ...


@overload
def step(function: Callable[_P, Coroutine[Any, Any, _T]], /) -> _core.Step[_P, _T]: ...
@overload
def step(function: Callable[_P, _T], /) -> _core.Step[_P, _T]: ...
@overload
def step(
    *,
    kind: Literal["transactional"],
    db: Any,
    table: str = "tiffany_steps",
    name: str | None = None,
    retries: int = 0,
    backoff: Backoff | Seconds | None = None,
    timeout: Seconds | None = None,
    heartbeat: Seconds | None = None,
    queue: str | None = None,
    no_retry: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> _Transactional: ...
@overload
def step(
    *,
    kind: Kind = "idempotent",
    name: str | None = None,
    retries: int = 0,
    backoff: Backoff | Seconds | None = None,
    timeout: Seconds | None = None,
    heartbeat: Seconds | None = None,
    queue: str | None = None,
    hold_in_doubt: bool = False,
    no_retry: type[BaseException] | tuple[type[BaseException], ...] = (),
) -> _Decorator: ...
def step(function: Any = None, /, **options: Any) -> Any:
    """Makes a function a step: work outside the program that a run executes once.

    Calling a step returns a call object, to be yielded or awaited. Its arguments and its result are
    recorded; a resumed run gets the result from the log. A plain function runs on a thread, an
    ``async def`` as an asyncio task on an event loop in a thread.

    ``retries``
        how often the step is retried after an exception, with delays set by ``backoff`` (seconds,
        or a `Backoff`); exceptions of the classes in ``no_retry`` are not retried.
    ``timeout``, ``heartbeat``
        how long an attempt may take, and the interval within which it must call
        ``attempt().heartbeat()``, in seconds.
    ``kind``
        ``"idempotent"``: after a crash the step is repeated, with the same key. ``"at_most_once"``:
        it is not repeated; its task gets an `InDoubtError`, or waits for a person with
        ``hold_in_doubt=True``. ``"transactional"``: it runs in a transaction of ``db``, exactly
        once. ``"pure"``: it changes nothing outside the program, and does not wait for the disk.
    ``queue``
        the queue in which the step waits, one of the runtime's queues.
    ``db``, ``table``
        for transactional steps: a function that connects to SQLite (`sqlite3`) or PostgreSQL
        (`psycopg`), or a PostgreSQL connection pool; the step's function gets the connection as its
        first argument. Keys and results are stored in ``table``.

    >>> import tiffany
    >>> @step(retries=2)
    ... def double(n):
    ...     return 2 * n
    >>> def main():
    ...     return (yield double(21))
    >>> tiffany.run(main())
    42
    """
    check_names("@step", options, _OPTIONS)
    if function is None:
        return functools.partial(_make, options)
    return _make(options, function)


def _make(options: dict[str, Any], function: Any) -> Any:
    given = _Options(**options)
    if isinstance(function, _core.Step):
        function = function.function
    if not callable(function) or isinstance(function, type):
        raise bad(f"{function!r} is not a step; pass a function")
    name = given.name or getattr(function, "__name__", None)
    if not isinstance(name, str) or not name:
        raise bad(f"the step {function!r} needs a name, which is a text", "@step(name=...)")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise bad(
            f"the step `{name}` is a generator function, which makes calls; a step cannot make calls",
            "make it a plain function, or call it without @step",
        )
    is_async = inspect.iscoroutinefunction(function)
    settings = given.settings(name, is_async)
    settings |= _parameters(function, given.kind == "transactional")
    _only_one(name, function)
    made: Any = _core.Step(function, settings, options)
    functools.update_wrapper(made, function)
    return made


_NAMED: dict[tuple[str, str], str] = {}
"""The module-level functions that are steps, by module and step name."""


def _only_one(name: str, function: Any) -> None:
    """Raises an error if another function of the same module is a step with this name, because the
    log could not tell them apart.
    """
    module = getattr(function, "__module__", None)
    qualname = getattr(function, "__qualname__", "<locals>")
    if not isinstance(module, str) or "<" in qualname:
        return
    known = _NAMED.setdefault((module, name), qualname)
    if known != qualname:
        raise bad(
            f"two steps of the module `{module}` are called {name!r}: `{known}` and `{qualname}`",
            "give one of them another name: @step(name=...)",
        )


def _seconds(name: str, given: Any) -> float | None:
    return None if given is None else seconds(f"`{name}` of a step", given)


class _Options:
    """The options of a step."""

    def __init__(
        self,
        *,
        name: str | None = None,
        retries: int = 0,
        backoff: Backoff | Seconds | None = None,
        timeout: Seconds | None = None,
        heartbeat: Seconds | None = None,
        kind: str = "idempotent",
        queue: str | None = None,
        hold_in_doubt: bool = False,
        no_retry: Any = (),
        db: Any = None,
        table: str = "tiffany_steps",
    ) -> None:
        for what, text in (("name", name), ("queue", queue), ("table", table)):
            if text is not None and not isinstance(text, str):
                raise bad(f"`{what}` of a step is a text, not {text!r}")
        if not isinstance(hold_in_doubt, bool):
            raise bad(f"`hold_in_doubt` of a step is True or False, not {hold_in_doubt!r}")
        self.name, self.kind, self.queue = name, kind, queue
        self.retries, self.hold_in_doubt, self.no_retry = retries, hold_in_doubt, no_retry
        self.timeout, self.heartbeat = (
            _seconds("timeout", timeout),
            _seconds("heartbeat", heartbeat),
        )
        self.db, self.table = db, table
        if isinstance(backoff, Backoff):
            self.backoff = backoff
        else:
            first = _seconds("backoff", backoff)
            self.backoff = Backoff() if first is None else Backoff(first=first)

    def settings(self, name: str, is_async: bool) -> dict[str, Any]:
        """Returns the options in the form that the runtime takes. Invalid options are an error at
        the decorator.
        """
        if self.kind not in KINDS:
            raise bad(
                f"the step `{name}` is of the kind {self.kind!r}; there are {', '.join(KINDS)}"
            )
        whole(f"`retries` of the step `{name}`", self.retries)
        if self.kind == "at_most_once" and self.retries:
            raise bad(f"the step `{name}` is at most once, so it cannot have retries")
        if self.hold_in_doubt and self.kind != "at_most_once":
            raise bad(f"the step `{name}` may be done again, so it is never in doubt")
        classes = self.no_retry if isinstance(self.no_retry, tuple) else (self.no_retry,)
        if not all(isinstance(cls, type) and issubclass(cls, BaseException) for cls in classes):
            raise bad(f"no_retry of the step `{name}` is a class of exceptions or a tuple of them")
        return {
            "name": name,
            "kind": self.kind,
            "is_async": is_async,
            "attempts": self.retries + 1,
            "backoff": (
                float(self.backoff.first),
                float(self.backoff.factor),
                float(self.backoff.max),
                float(self.backoff.jitter),
            ),
            "timeout": self.timeout,
            "heartbeat": self.heartbeat,
            "queue": self.queue,
            "hold_in_doubt": self.hold_in_doubt,
            "no_retry": classes,
            "transact": self._transact(name, is_async),
        }

    def _transact(self, name: str, is_async: bool) -> Any:
        if self.kind != "transactional":
            if self.db is not None:
                raise bad(f'the step `{name}` has a db; then its kind is "transactional"')
            return None
        if is_async:
            raise bad(
                f"the step `{name}` is transactional; make it a plain function, which runs on a thread"
            )
        if not callable(self.db) and not hasattr(self.db, "connection"):
            raise bad(
                f"the step `{name}` is transactional and needs a db: a function that connects, or a pool"
            )
        return _transactions.Transact(self.db, self.table)


_OPTIONS = [*inspect.signature(_Options).parameters]


def _parameters(function: Any, has_connection: bool) -> dict[str, Any]:
    """Returns the parameters of a function: which can be positional, and how many are required."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if has_connection:
        if not parameters:
            raise bad(
                f"the transactional step `{function.__name__}` has no parameter for the connection"
            )
        parameters = parameters[1:]
        signature = signature.replace(parameters=parameters)
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = None
    if all(parameter.kind in plain for parameter in parameters):
        required = [p for p in parameters if p.default is inspect.Parameter.empty]
        positional = ([p.name for p in parameters], len(required))
    return {"positional": positional, "signature": signature}
