"""One table of exception classes: the module, the codes in Rust and the book say the same."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tiffany import errors

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    """The script that writes the classes."""
    place = ROOT / "python/generate_errors.py"
    spec = importlib.util.spec_from_file_location("generate_errors", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = generator()
TABLE: dict[str, Any] = GENERATOR.table()
ROWS: list[dict[str, Any]] = TABLE["error"]
PLAIN = {code for codes in TABLE["plain"] for code in GENERATOR.codes(codes)}


def test_the_classes_in_the_module_are_those_of_the_table() -> None:
    """If not: ``python python/generate_errors.py``."""
    text = GENERATOR.MODULE.read_text()
    assert GENERATOR.written(text) == text


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_each_class_is_what_its_row_says(row: dict[str, Any]) -> None:
    """Name, code, module, bases, documentation, and the further codes."""
    cls = getattr(errors, row["name"])
    assert (cls.code, cls.__name__, cls.__module__) == (row["code"], row["name"], "tiffany.errors")
    assert [base.__name__ for base in cls.__bases__] == ["TiffanyError", *row.get("bases", [])]
    assert " ".join(cls.__doc__.split()) == row["doc"]
    assert row["name"] in errors.__all__
    for code in (row["code"], *row.get("also", [])):
        assert issubclass(errors.of_code(code), cls)
        assert errors.of_code(code).code == code


def test_no_code_and_no_name_stands_twice() -> None:
    """Each code belongs to one row, or is said to have no class."""
    codes = [code for row in ROWS for code in (row["code"], *row.get("also", []))]
    assert len(codes) == len(set(codes)) and not PLAIN & set(codes)
    names = [row["name"] for row in ROWS]
    assert len(names) == len(set(names))


def test_the_book_and_the_table_know_the_same_codes() -> None:
    """A section for each code, and the sentence on codes without a class."""
    pages = "".join(page.read_text() for page in (ROOT / "docs/src").glob("*.md"))
    explained = set(re.findall(r"^###? (TFY\d{4})$", pages, re.M))
    ours = {code for row in ROWS for code in (row["code"], *row.get("also", []))}
    assert explained - PLAIN == ours
    told = re.sub(r"\s+", " ", (ROOT / "docs/src/errors.md").read_text())
    assert f"no class of their own in Python: {', '.join(TABLE['plain'])}." in told


def test_each_kind_of_the_kernel_has_its_row() -> None:
    """What Rust can raise is in the table."""
    text = (ROOT / "crates/kernel/src/error.rs").read_text()
    kinds = dict(re.findall(r'^    ([A-Z]\w+) = "(TFY\d{4})",', text, re.M))
    assert len(kinds) > 80
    known = PLAIN | {code for row in ROWS for code in (row["code"], *row.get("also", []))}
    assert set(kinds.values()) <= known
