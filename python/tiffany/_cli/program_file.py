"""Programs from files: a file is loaded as ``python FILE.py`` would load it. This module knows
nothing about runs.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from tiffany.errors import TiffanyError


class ProgramFileError(TiffanyError):
    """A file that cannot be run as requested. ``exit_code`` is the exit code of the command line."""

    exit_code = 1

    def __init__(self, code: str, message: str, next_step: str, exit_code: int = 1) -> None:
        super().__init__(f"{message} [{code}]; {next_step}")
        self.code = code
        self.exit_code = exit_code


# The previous `__main__` modules: their functions still need their globals.
_displaced: list[ModuleType | None] = []


def split(text: str) -> tuple[str, str]:
    """Splits an argument into the file and the name of the function in it.

    >>> split("orders.py")
    ('orders.py', 'main')
    >>> split("shop/orders.py:nightly")
    ('shop/orders.py', 'nightly')
    """
    if os.path.exists(text):
        return text, "main"
    file, colon, name = text.rpartition(":")
    if colon and file and name.replace(".", "_").isidentifier():
        return file, name
    return text, "main"


def load(file: str, arguments: Sequence[str]) -> ModuleType:
    """Loads a file as the module ``__main__``, with ``sys.argv`` and ``sys.path`` as ``python
    FILE.py`` sets them.

    Code under ``if __name__ == "__main__":`` is not executed, because the file would start its own
    run there. Everything has the same names as with ``python FILE.py``, so that each finds what the
    other wrote to a log.
    """
    path = os.path.abspath(file)
    try:
        with open(path, "rb") as opened:
            source = opened.read()
    except OSError as error:
        why = error.strerror or str(error)
        message = f"the file {file!r} cannot be read: {why}"
        raise ProgramFileError(
            "TFY0070", message, "give the path of a file with Python code"
        ) from None
    code = compile(_without_start(ast.parse(source, path)), path, "exec", dont_inherit=True)
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    module.__dict__.update(__builtins__=builtins, __cached__=None)
    _displaced.append(sys.modules.get("__main__"))
    sys.modules["__main__"] = module
    sys.argv[:] = [file, *arguments]
    if not sys.flags.safe_path and sys.path:
        sys.path[0] = os.path.dirname(path)
    exec(code, module.__dict__)
    return module


def module_name(text: str) -> tuple[str, str | None] | None:
    """Splits ``package.module:name`` into the module and the name in it. Returns ``None`` for a file.

    >>> module_name("shop.orders:runtime")
    ('shop.orders', 'runtime')
    >>> module_name("shop.orders")
    ('shop.orders', None)
    >>> module_name("shop/orders.py")
    """
    module, _, name = text.partition(":")
    is_dotted = all(part.isidentifier() for part in (module + name).split("."))
    if os.path.exists(text) or not is_dotted or module.endswith(".py"):
        return None
    return module, name or None


def load_app(text: str) -> tuple[ModuleType, Any]:
    """Loads the functions of a file, or imports ``package.module:name`` from the working directory or
    from what is installed. Returns the module, and what the name in it stands for.
    """
    named = module_name(text)
    if named is None:
        return load(text, []), None
    module, name = named
    if not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        message = f"there is neither a file {text!r} nor a module `{module}`"
        next_step = "give the path of a file with Python code, or the module as `package.module`"
        raise ProgramFileError("TFY0070", message, next_step)
    imported = importlib.import_module(module)
    found: Any = imported
    for part in name.split(".") if name is not None else ():
        found = getattr(found, part, None)
    if name is not None and found is None:
        message = f"the module `{module}` has no `{name}`"
        next_step = (
            "name an `AsyncRuntime`, a dict of settings, or a workflow of the module, or no name"
        )
        raise ProgramFileError("TFY0071", message, next_step)
    return imported, found if name is not None else None


def _without_start(tree: ast.Module) -> ast.Module:
    """Returns the code with every comparison of ``__name__`` with ``"__main__"`` in an ``if`` at
    module level replaced by false.
    """

    class Compared(ast.NodeTransformer):
        def visit_Compare(self, node: ast.Compare) -> ast.expr:
            sides = [node.left, *node.comparators]
            is_name = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
            is_main = any(
                isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
            )
            if is_name and is_main and len(sides) == 2 and isinstance(node.ops[0], ast.Eq):
                return ast.copy_location(ast.Constant(False), node)
            return node

    branches: list[ast.stmt] = list(tree.body)
    while branches:
        branch = branches.pop()
        if isinstance(branch, ast.If):
            branch.test = Compared().visit(branch.test)
            branches += branch.orelse
    return tree


def find(module: ModuleType, name: str) -> Callable[..., Any]:
    """Finds the function with this name."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    there = [key for key, value in vars(module).items() if _is_program_function(module, value)]
    if found is not None:
        message = f"`{name}` is not a function but a `{type(found).__name__}`"
    elif there:
        message = (
            f"there is no function `{name}`; there are {', '.join(f'`{key}`' for key in there)}"
        )
    else:
        message = f"there is no function `{name}`"
    near = difflib.get_close_matches(name, there, 1) or there[:1] or ["NAME"]
    next_step = (
        f"name the function after the file: `{os.path.basename(module.__file__ or '')}:{near[0]}`"
    )
    raise ProgramFileError("TFY0071", message, next_step)


def _is_program_function(module: ModuleType, value: Any) -> bool:
    inner = inspect.unwrap(value) if callable(value) else value
    is_own = getattr(inner, "__module__", None) == module.__name__
    return is_own and (inspect.isgeneratorfunction(inner) or inspect.iscoroutinefunction(inner))


def call(function: Callable[..., Any], name: str, arguments: Sequence[Any]) -> Any:
    """Calls the function and returns its program."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        signature = None
    if signature is not None:
        try:
            signature.bind(*arguments)
        except TypeError as error:
            message = f"`{name}{signature}` was given {len(arguments)} arguments: {error}"
            next_step = "give its arguments after the file; with `--json` each of them is JSON"
            raise ProgramFileError("TFY0072", message, next_step, exit_code=2) from None
    program = function(*arguments)
    if inspect.isgenerator(program) or inspect.iscoroutine(program) or is_like_program(program):
        return program
    message = f"`{name}` returned a `{type(program).__name__}`, which is not a program"
    raise ProgramFileError(
        "TFY0073", message, "make it an `async def`, or a function with a `yield` in it"
    )


def is_like_program(program: Any) -> bool:
    """Whether an object is a program of another kind: compiled, or from an extension module."""
    from collections.abc import Coroutine, Generator

    from tiffany import _core

    return isinstance(program, (Generator, Coroutine, _core.Program))
