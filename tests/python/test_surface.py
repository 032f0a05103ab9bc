"""The public surface: what the package exports, how it is documented, and that the stubs say the same as the compiled module."""

from __future__ import annotations

import ast
import doctest
import inspect
import pydoc
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import _core, _old_names, _settings, durable, errors
from tiffany import calls as calls_module
from tiffany.calls import SystemCall

STUB = Path(_core.__file__).with_name("_core.pyi")


def calls() -> list[type[SystemCall[Any]]]:
    """All classes of calls."""
    found = [value for value in vars(_core).values() if inspect.isclass(value)]
    # What a step gives when it is called has no name of its own.
    not_made_by_name = (SystemCall, _core.StepCall)
    return [cls for cls in found if issubclass(cls, SystemCall) and cls not in not_made_by_name]


def test_all_names_are_there_and_no_others() -> None:
    """`__all__` has every public name once, in order."""
    assert sorted(set(tiffany.__all__)) == list(tiffany.__all__)
    public = {name for name in vars(tiffany) if not name.startswith("_")} | {"__version__"}
    # These come when they are first used.
    public |= {"AsyncClient", "Client", "connect"}
    modules = {name for name in public if inspect.ismodule(getattr(tiffany, name))}
    assert public - modules == set(tiffany.__all__)


def test_every_call_has_its_twin() -> None:
    """Every class of calls has a name in small letters, which makes the same call."""
    assert len(calls()) >= 40
    for cls in calls():
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        name = {"yield": "yield_now", "show": "progress"}.get(name, name)
        twin = getattr(calls_module, name)
        assert name in calls_module.__all__
        assert getattr(tiffany, name) is twin if name in tiffany.__all__ else True
        made = twin() if name == "yield_now" else None
        assert twin is cls or callable(twin)
        assert made is None or isinstance(made, cls)


def test_the_issues_names_are_there() -> None:
    """The names that programs written for the specification use."""
    names = """Spawn Wait Gather Race Cancel CreatePromise CompletePromise FailPromise CreateExternalPromise GetTid GetHandlers NewTask
        WaitTask KillTask ReadWait WriteWait Sleep Yield Get Put Tell Ask Now Random Task Future Promise ExternalPromise
        complete_by_uuid RaceResult Ok Err TaskCancelledError Cancelled DeadlockError run"""
    places = (tiffany, calls_module, errors)
    for name in names.split():
        place = next(place for place in places if name in place.__all__)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            assert getattr(tiffany, name) is getattr(place, name)


def test_the_top_of_the_package_is_small() -> None:
    """What programs use every day is at the top; all else is in its module."""
    assert 40 <= len(tiffany.__all__) <= 55


@pytest.mark.parametrize("name", sorted(_old_names.PLACES))
def test_old_names_still_work_and_say_where_they_are_now(name: str) -> None:
    """Names that version 0.1 had at the top are the same objects, with a warning that names the place."""
    with pytest.warns(DeprecationWarning, match=f"`tiffany.{name}` is now `") as warned:
        old = getattr(tiffany, name)
    assert warned[0].filename == __file__
    place = str(warned[0].message).split("is now `")[1].split("`")[0]
    found = pydoc.locate(place)
    assert found is old
    assert name not in tiffany.__all__
    assert name in {"Agent", "Connection", "agent"} or place.endswith(f".{name}")


def test_a_name_that_never_was_is_an_error() -> None:
    """Also in `tiffany.durable`, which had names that are called otherwise now."""
    for module in (tiffany, durable):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018
    with pytest.warns(DeprecationWarning, match="`tiffany.durable.agent` is now `tiffany.state_"):
        assert durable.agent is tiffany.state_machine


def public() -> list[Any]:
    """All public objects of the package and its modules, with their names."""
    found = {
        f"{place.__name__}.{name}": getattr(place, name)
        for place in (errors, durable, calls_module, tiffany)
        for name in place.__all__
        if name != "__version__"
    }
    return [pytest.param(name, value, id=name) for name, value in found.items()]


@pytest.mark.parametrize(("name", "value"), public())
def test_everything_public_is_documented(name: str, value: Any) -> None:
    """Every public name says what it is for, in `help()` too; and so do its public methods."""
    assert value.__doc__ and len(value.__doc__) > 10
    assert value.__doc__.split("\n")[0] in pydoc.plain(pydoc.render_doc(value))
    if inspect.isclass(value) and value.__module__ == "tiffany":
        for method, member in vars(value).items():
            if not method.startswith("_") and (
                callable(member) or inspect.isgetsetdescriptor(member)
            ):
                assert member.__doc__, f"{name}.{method}"


@pytest.mark.parametrize(("name", "value"), public())
def test_examples_in_docstrings_are_true(name: str, value: Any) -> None:
    """The examples in the documentation of what is compiled. (Those of modules are found by `--doctest-modules`.)"""
    if getattr(value, "__module__", "") != "tiffany":
        return
    finder = doctest.DocTestFinder(recurse=False)
    for found in finder.find(
        value,
        name,
        globs={
            **vars(errors),
            **vars(durable),
            **vars(calls_module),
            **vars(tiffany),
            "tiffany": tiffany,
        },
    ):
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(found)
        assert runner.failures == 0, found.name


def test_the_commonest_things_have_examples() -> None:
    """The classes that everybody meets first show how they are used."""
    for cls in (
        tiffany.calls.Spawn,
        tiffany.calls.Gather,
        tiffany.calls.Race,
        tiffany.calls.CreatePromise,
        tiffany.calls.Channel,
    ):
        assert ">>>" in (cls.__doc__ or ""), cls


def test_the_stub_and_the_module_agree() -> None:
    """mypy's own comparison of the stub with the compiled module finds nothing."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy.stubtest", "tiffany._core", "tiffany.net"]
    command += ["--allowlist", str(Path(__file__).with_name("stubtest-allowed.txt"))]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_names_what_the_module_has() -> None:
    """Every public name of the compiled module is in the stub, and the other way round."""
    tree = ast.parse(STUB.read_text())
    stubbed = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    there = {name for name in vars(_core) if not name.startswith("_")}
    assert {name for name in stubbed if not name.startswith("_")} == there


BOOK = Path(__file__).parents[2] / "docs/src"


def codes() -> set[str]:
    """All codes that the book explains."""
    pages = "".join(page.read_text() for page in BOOK.glob("*.md"))
    return set(re.findall(r"^###? (TFY\d{4})$", pages, re.M))


@pytest.mark.parametrize("cls", [cls for cls in vars(errors).values() if inspect.isclass(cls)])
def test_every_error_has_a_code_of_the_book(cls: type) -> None:
    """Every class of errors has a code, and the book a section for it."""
    if not issubclass(cls, tiffany.TiffanyError):
        return
    assert cls.code in codes()
    assert errors.of_code(cls.code) is cls


def test_every_code_has_its_class_or_is_said_to_have_none() -> None:
    """Whoever reads of a code in the book can catch its error by name, or is told that it is a plain `TiffanyError`."""
    told = (BOOK / "errors.md").read_text().split("have no class of their own in Python: ")[1]
    general: set[str] = set()
    for first, last in re.findall(r"TFY(\d{4})(?: to TFY(\d{4}))?", told.split(".")[0]):
        general.update(f"TFY{number:04}" for number in range(int(first), int(last or first) + 1))
    without = {code for code in codes() if code not in errors._BY_CODE}
    assert without == general
    for code in without:
        assert errors.of_code(code).__name__ == "TiffanyError"


def test_settings_are_the_same_everywhere() -> None:
    """Every setting has a type, a default, a description and a row in the book; and the functions
    that take all of them show them.
    """
    names = set(_settings.DEFAULTS)
    assert set(_settings.RuntimeSettings.__annotations__) == names
    described = (_settings.RuntimeSettings.__doc__ or "") + (BOOK / "python.md").read_text()
    for name in names:
        assert described.count(f"``{name}``") == 1, name
        assert described.count(f"\n| `{name}` | ") == 1, name
    for function in (tiffany.Runtime, tiffany.run, tiffany.arun):
        parameters = inspect.signature(function).parameters
        for name, default in _settings.DEFAULTS.items():
            assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[name].default == default
        assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
