"""Rows in both dialects. Each is written once, with ``async def`` and ``await``; the same text with ``def`` and ``yield`` is a row of
generators. It knows nothing of what a row checks."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

Row = Callable[..., None]


def both(row: Row) -> Row:
    """A row that runs twice: as it is written, and as generators."""
    rows = {"async": row, "generator": as_generators(row)}

    def run(dialect: str, **fixtures: Any) -> None:
        rows[dialect](**fixtures)

    given = inspect.signature(row)
    dialect = inspect.Parameter("dialect", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = given.replace(  # type: ignore[attr-defined]
        parameters=[dialect, *given.parameters.values()]
    )
    run.__name__, run.__doc__, run.__module__ = row.__name__, row.__doc__, row.__module__
    marked: Row = pytest.mark.parametrize("dialect", list(rows))(run)
    return marked


def as_generators(row: Row) -> Row:
    """The row with ``yield`` for every ``await``."""
    lines, first = inspect.getsourcelines(row)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef), "a row is a plain function around its programs"
    function.decorator_list = []
    tree = ast.fix_missing_locations(_Yielding().visit(tree))
    defined: dict[str, Any] = {}
    exec(compile(tree, inspect.getfile(row), "exec"), row.__globals__, defined)
    twin: Row = defined[row.__name__]
    return twin


class _Yielding(ast.NodeTransformer):
    """Makes generators of coroutines."""

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self.generic_visit(node)
        # One that awaits nothing is a generator too.
        never = ast.parse("if False: yield").body[0]
        ast.copy_location(never, node.body[0])
        fields = {name: getattr(node, name) for name in node._fields}
        fields["body"] = [never, *node.body]
        return ast.copy_location(ast.FunctionDef(**fields), node)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        return ast.copy_location(ast.Yield(node.value), node)

    def refuse(self, node: ast.AST) -> ast.AST:
        raise SyntaxError(f"{type(node).__name__} has no twin among generators: leave out @both")

    visit_AsyncFor = refuse
    visit_AsyncWith = refuse
