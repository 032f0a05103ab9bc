"""What requests about durable runs are made of: inputs, forks, decisions and questions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from tiffany import _core
from tiffany._arguments import bad, several
from tiffany.durable import _workflows

_NOTHING: Any = object()


def decision(done: Any, failed: str | None, again: bool) -> tuple[str, Any]:
    """Returns a person's decision on a step in doubt: exactly one of three."""
    said = [("done", done)] if done is not _NOTHING else []
    said += [("failed", failed)] if failed is not None else []
    said += [("again", None)] if again else []
    if len(said) != 1:
        raise bad(
            "a step in doubt needs exactly one decision",
            "pass one of done=its result, failed=why, or again=True",
        )
    return said[0]


def started(workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """Returns the name of a workflow and its encoded input."""
    if isinstance(workflow, str):
        function = _workflows.Functions().find(workflow, False)
        if function is None:
            if args and kwargs:
                raise bad(
                    f"the workflow {workflow!r} is not here, so its parameters are not known",
                    "name all arguments, or none",
                )
            arguments: Any = kwargs or list(args) or {}
            return workflow, _workflows.encoded(workflow, arguments)
        return workflow, _workflows.encoded(workflow, _workflows.arguments(function, args, kwargs))
    name = _workflows.name_of(workflow)
    return name, _workflows.encoded(name, _workflows.arguments(workflow, args, kwargs))


def of_program(functions: _workflows.Functions, program: Any) -> tuple[str, str]:
    """Returns the name of the workflow of a program that was not started, and its encoded input."""
    name, function, given = _workflows.of_program(program)
    # The run has a program of its own, made from the recorded arguments.
    program.close()
    functions.add(name, function)
    return name, _workflows.encoded(name, given)


def submitted(
    functions: _workflows.Functions, workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str]:
    """Returns the name of a workflow and its encoded input, given as `Runtime.submit` takes them. The
    function becomes known to the runtime.
    """
    if inspect.isgenerator(workflow) or inspect.iscoroutine(workflow):
        if args or kwargs:
            raise bad(
                "a program has its arguments already",
                "give the function and its arguments, or the program alone",
            )
        return of_program(functions, workflow)
    name, encoded = started(workflow, args, kwargs)
    if not isinstance(workflow, str):
        functions.add(name, workflow)
    return name, encoded


def forked(
    reply: Any, fail: BaseException | str | None, as_is: bool, allow: Iterable[str], id: str | None
) -> dict[str, Any]:
    """Returns how a fork differs from its parent."""
    if reply is not _NOTHING and fail is not None:
        raise bad("a fork was given both an answer and an error", "give it `reply` or `fail`")
    if isinstance(allow, str):
        raise bad(f"`allow` is a list of names, not {allow!r}", f"write [{allow!r}]")
    return {
        "reply": None if reply is _NOTHING else [reply],
        "fail": fail,
        "as_is": as_is,
        "allow": several("allow", allow),
        "id": id,
    }


def question(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Returns the encoded argument of a query."""
    if args and kwargs:
        raise bad(
            "a question came with arguments by position and by name",
            "ask with arguments by position or by name, not both",
        )
    text: str = _core._encode(kwargs or list(args) or None, "the input of a question")
    return text
