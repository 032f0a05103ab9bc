"""Workflows: the functions that durable runs are started from, and called again after a restart.

A function is known by a name, ``module:qualname`` unless it is given another. Names in a log never
cause an import.
"""

from __future__ import annotations

import functools
import inspect
import json
import linecache
import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, ModuleType
from typing import Any, TypeVar, overload

from tiffany import _core
from tiffany._arguments import bad, known_names_only, several
from tiffany._names import modules, names
from tiffany.durable import _inputs, _schema, _state_machines
from tiffany.errors import (
    PausedRunWarning,
    UnreadableError,
    UnregisteredError,
)

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)

_REGISTERED: dict[str, Function] = {}
"""All workflows of this process, by name."""
_NAMES: dict[CodeType, str | None] = {}
"""The names of workflows by their code; ``None`` where two functions share the same code."""


@overload
def workflow(function: F, /) -> F: ...
@overload
def workflow(*, name: str | None = None) -> Callable[[F], F]: ...
@known_names_only("@workflow")
def workflow(function: Function | None = None, /, *, name: str | None = None) -> Any:
    """Registers a generator function or an ``async def`` under a name, so that durable runs of it
    can be started and resumed.

    Calling the function still returns a program. Decorators below this one are part of the workflow
    if they use ``functools.wraps``; they must leave the arguments unchanged. The name is
    ``module:qualname`` unless another is given. A function with an explicit name can move to
    another module without losing its runs.

    >>> @workflow(name="greeting")
    ... def greet(who):
    ...     yield
    ...     return f"hello {who}"
    >>> _core_runs = greet("Ada")
    """
    if function is None:
        return lambda function: _register(function, name)
    return _register(function, name)


def add(function: Function, name: str | None) -> str:
    """Registers a function, or the class of a state machine, and returns its name."""
    chosen = name or default_name(function)
    known = _REGISTERED.get(chosen)
    if known is not None and default_name(known) != default_name(function):
        raise bad(
            f"two workflows are called {chosen!r}: {default_name(known)} and {default_name(function)}",
            "give one of them another name",
        )
    _REGISTERED[chosen] = function
    return chosen


def _register(function: F, name: str | None) -> F:
    _check(function)
    if name is not None and not (isinstance(name, str) and name):
        raise bad(f"`name` of a workflow is a text, not {name!r}")
    chosen = add(function, name)
    code = _code(function)
    _NAMES[code] = chosen if _NAMES.get(code, chosen) == chosen else None
    return function


def _check(function: Any) -> None:
    if not _makes_programs(function):
        shown = getattr(function, "__qualname__", repr(function))
        raise bad(f"{shown} is not a workflow; pass a generator function or an async def")


def _makes_programs(function: Any) -> bool:
    """Whether a function returns a program, as far as that is visible: a decorator's own function
    declares with ``functools.wraps`` which function it wraps.
    """
    try:
        inner = inspect.unwrap(function) if callable(function) else None
    except ValueError:
        return False
    return inspect.isgeneratorfunction(inner) or inspect.iscoroutinefunction(inner)


def _code(function: Function) -> CodeType:
    code: CodeType = inspect.unwrap(function).__code__
    return code


def _is_same(one: Any, other: Any) -> bool:
    """Whether two functions have the same code and no wrapper, as when a module is imported again."""
    if inspect.isclass(one) or inspect.isclass(other):
        return False
    if inspect.unwrap(one).__closure__ or inspect.unwrap(other).__closure__:
        return False
    return _code(one) == _code(other)


def default_name(function: Function) -> str:
    """Returns the name of a function that was given no other.

    >>> default_name(default_name)
    'tiffany.durable._workflows:default_name'
    """
    return names(function.__module__, function.__qualname__)[0]


def name_of(function: Function) -> str:
    """Returns the name of a function that can be submitted. A function at the top level of a module
    becomes a workflow if it is not one yet.
    """
    machine = _state_machines.name_of(function)
    if machine is not None:
        return machine
    _check(function)
    name = _NAMES.get(_code(function))
    if name is not None and _REGISTERED.get(name) is function:
        return name
    for registered, known in _REGISTERED.items():
        if known is function:
            return registered
    if inspect.unwrap(function) is not function:
        raise bad(
            f"`{function.__qualname__}` is a decorator's function around a workflow, which would be lost after a restart",
            "put @tiffany.workflow above the decorator",
        )
    return default_name(function)


def _at_module_level(name: str) -> Function | None:
    """Returns the function with this name at the top level of a module."""
    module, _, qualname = name.partition(":")
    return next(filter(None, (_found(top, qualname) for top in modules(module))), None)


def _found(top: ModuleType, qualname: str) -> Function | None:
    found: Any = top
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return inspect.unwrap(found) if _makes_programs(found) else None


def _frame(program: Any) -> tuple[CodeType, FrameType]:
    if inspect.iscoroutine(program):
        begun = inspect.getcoroutinestate(program) != inspect.CORO_CREATED
        code, frame = program.cr_code, program.cr_frame
    elif inspect.isgenerator(program):
        begun = inspect.getgeneratorstate(program) != inspect.GEN_CREATED
        code, frame = program.gi_code, program.gi_frame
    else:
        raise bad(
            f"`{type(program).__name__}` cannot be run durably", "give a generator or a coroutine"
        )
    if begun or frame is None:
        raise bad(f"the program `{code.co_qualname}` was started before", "call its function again")
    return code, frame


def of_program(program: Any) -> tuple[str, Function, dict[str, Any]]:
    """Returns the name, the function and the arguments of a program that was not started."""
    code, frame = _frame(program)
    registered = _NAMES.get(code)
    if registered is not None:
        name, function = registered, _REGISTERED[registered]
    else:
        module = str(frame.f_globals.get("__name__", ""))
        for name in names(module, code.co_qualname):
            found = _at_module_level(name)
            if found is not None and _code(found) is code:
                function = found
                break
        else:
            raise UnregisteredError(
                f"`{code.co_qualname}` is not found under this name at the top of the module `{module}`, so it could not be "
                "called again after a restart [TFY0038]; move it there, or decorate it with @tiffany.workflow"
            )
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    given = frame.f_locals
    return name, function, {name: given[name] for name in code.co_varnames[:count]}


def arguments(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a function by the names of its parameters, including defaults."""
    try:
        bound = _signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise bad(f"{function.__qualname__}(): {error}") from None
    if _state_machines.name_of(function) is not None:
        bound.arguments.update(_state_machines.made_anew(function, bound.arguments))
    bound.apply_defaults()
    return dict(bound.arguments)


@functools.lru_cache(maxsize=1024)
def _signature(function: Function) -> inspect.Signature:
    return inspect.signature(function)


def _parameters(function: Function) -> str | None:
    """Returns the parameters of a function as they are written, omitting those that cannot be
    shown.
    """
    try:
        signature = _signature(function).replace(return_annotation=inspect.Signature.empty)
        return str(signature)[1:-1]
    except Exception:
        return None


class Functions:
    """The functions of one runtime, and the reports about its runs. The runtime calls its methods."""

    def __init__(self, given: Iterable[Function] = ()) -> None:
        self.given: dict[str, Function] = {}
        for function in several("workflows", given):
            self.add(name_of(function), function)

    def add(self, name: str, function: Function) -> None:
        """Adds a function, or the class of a state machine, under its name. A second one with that
        name is an error, because runs could not tell them apart.
        """
        known = self.given.setdefault(name, function)
        if known is not function and not _is_same(known, function):
            raise bad(
                f"two workflows are called {name!r}, and this runtime has the other one",
                "give one of them another name with @tiffany.workflow(name=...), or close the runtime and open it again",
            )

    def listed(self) -> list[tuple[str, str | None, str | None, str | None]]:
        """Returns the functions that runs can be started from: names, parameters, their JSON
        Schemas, and descriptions.
        """
        functions = {**_REGISTERED, **self.given}
        return [
            (name, _parameters(functions[name]), *_schema.described(functions[name]))
            for name in sorted(functions)
        ]

    def find(self, name: str, again: bool) -> Function | None:
        """Finds the function with this name. To resume a run (``again``), any function at the top
        level of an imported module will do.
        """
        found = self.given.get(name) or _REGISTERED.get(name)
        if found is None and again:
            found = _at_module_level(name)
        return found

    def program(self, function: Function, given: Any, is_asked: bool) -> Any:
        """Returns the program of a function with this input, an object with its parameters."""
        signature = _signature(function)
        if given is None:
            given = {}
        if isinstance(given, list):
            try:
                given = dict(signature.bind(*given).arguments)
            except TypeError as error:
                raise _unfit(function, str(error)) from None
        if not isinstance(given, dict):
            raise _unfit(
                function,
                f"{_inputs.shown(given)} is not an object with the names of its parameters",
            )
        missing = [
            name
            for name, parameter in signature.parameters.items()
            if name not in given
            and parameter.default is inspect.Parameter.empty
            and parameter.kind
            not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        ]
        unknown = [name for name in given if name not in signature.parameters]
        if missing or unknown:
            what = [f"`{name}` is not in it" for name in missing]
            what += [f"it has no parameter `{name}`" for name in unknown]
            raise _unfit(function, ", ".join(what))
        try:
            given = _inputs.fitted(function, given, checks=is_asked)
        except _inputs.Unfit as error:
            raise _unfit(function, str(error)) from None
        bound = inspect.BoundArguments(signature, OrderedDict(given))
        return function(*bound.args, **bound.kwargs)

    def note(self) -> str:
        """Returns what the code of a run may depend on, besides itself."""
        return _NOTE

    def suspects(self, note: str) -> str | None:
        """Returns possible reasons why a run behaves differently from before."""
        if not _seed_differs(note):
            return None
        return (
            "the order of a set: the run began with another hash seed; sort what comes out of a set, "
            "or start Python with PYTHONHASHSEED=0, or with `tiffany run`"
        )

    def source(self, file: str, line: int) -> str:
        """Returns the current text of a line."""
        linecache.checkcache(file)
        return linecache.getline(file, line).strip()

    def source_then(self, file: str, line: int, then: float) -> str:
        """Returns the text of a line at a given time, or nothing if its file has been written
        since.
        """
        try:
            is_same = os.stat(file).st_mtime < then
        except OSError:
            return ""
        return self.source(file, line) if is_same else ""

    def paused(self, run: str, error: str) -> None:
        """Reports that a run cannot continue."""
        _warn(f"run {run} cannot continue and is paused: {error}", PausedRunWarning)


def _unfit(function: Function, why: str) -> UnreadableError:
    """Returns the error for an input that a function does not accept, with an example that it does."""
    takes = _parameters(function)
    takes = f"({takes})" if takes else "nothing"
    return UnreadableError(
        f"the input does not fit `{function.__qualname__}`: {why}; it takes {takes}, "
        f"such as {_schema.example(function)} [TFY0035]; "
        "correct the input; if an older version of the function accepted it, accept it here too"
    )


_NOTE = json.dumps(
    {"name": "python", "version": sys.version.split()[0], "hash": str(hash("tiffany"))},
    separators=(",", ":"),
)


def _seed_differs(note: str) -> bool:
    try:
        noted = json.loads(note)
    except ValueError:
        return False
    return isinstance(noted, dict) and noted.get("hash") not in (None, str(hash("tiffany")))


def _warn(message: str, category: type[Warning]) -> None:
    """Warns at the first line outside tiffany."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("tiffany"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def encoded(name: str, arguments: dict[str, Any]) -> str:
    """Returns the arguments of a workflow in the form in which they are recorded."""
    text: str = _core._encode(arguments, f"the arguments of workflow `{name}`")
    return text
