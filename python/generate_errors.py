"""Writes the exception classes of `tiffany.errors` from the table `errors.toml`.

``python python/generate_errors.py`` writes them; with ``--check`` it only says whether they are
up to date.
"""

from __future__ import annotations

import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "errors.toml"
MODULE = HERE / "tiffany/errors.py"
BEGIN = "# Generated from errors.toml by generate_errors.py: begin\n"
MAX_LINE = 98
"""So long may a docstring of one line be."""
OWN = ["Cancelled", "PausedRunWarning", "TiffanyError", "of_code"]
"""What the module has besides."""
END = "# Generated from errors.toml by generate_errors.py: end\n"


def table() -> dict[str, Any]:
    """Returns the table: `error`, the classes, and `plain`, the codes without a class."""
    return tomllib.loads(TABLE.read_text())


def codes(first_last: str) -> list[str]:
    """Returns the codes of a range.

    >>> codes("TFY0001")
    ['TFY0001']
    >>> codes("TFY0009 to TFY0011")
    ['TFY0009', 'TFY0010', 'TFY0011']
    """
    first, _, last = first_last.partition(" to ")
    return [f"TFY{number:04}" for number in range(int(first[3:]), int((last or first)[3:]) + 1)]


def class_text(row: dict[str, Any]) -> str:
    """Returns the definition of one class."""
    bases = ", ".join(["TiffanyError", *row.get("bases", [])])
    doc = f'"""{row["doc"]}"""'
    if len(doc) > MAX_LINE:
        doc = textwrap.fill(f'"""{row["doc"]}', 96) + '\n"""'
    lines = [f"class {row['name']}({bases}):", *textwrap.indent(doc, "    ").split("\n"), ""]
    lines += [f'    code = "{row["code"]}"']
    fields = [line for line in row.get("body", []) if not line.startswith("__")]
    methods = [line for line in row.get("body", []) if line.startswith("__")]
    lines += [f"    {line}" for line in fields]
    lines += [line for method in methods for line in ("", f"    {method}")]
    return "\n".join(lines) + "\n"


def generated() -> str:
    """Returns everything between the two marks."""
    rows = sorted(table()["error"], key=lambda row: str(row["code"]))
    classes = "\n\n".join(class_text(row) for row in rows)
    more = [(code, row["name"]) for row in rows for code in row.get("also", [])]
    family = "".join(f'    "{code}": {name},\n' for code, name in sorted(more))
    names = "".join(f'    "{name}",\n' for name in sorted([*OWN, *(row["name"] for row in rows)]))
    return (
        f"\n\n{classes}\n\n"
        f"_FAMILIES: dict[str, type[TiffanyError]] = {{\n{family}}}\n"
        '"""Codes whose classes are made when they are needed, as subclasses of these."""\n\n'
        f"__all__ = [\n{names}]\n"
    )


def written(text: str) -> str:
    """Returns a module with the classes between its marks replaced."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + generated() + END + rest.split(END)[1]


def main() -> int:
    """Writes the module, or checks it."""
    old = MODULE.read_text()
    new = written(old)
    if "--check" in sys.argv:
        if new != old:
            print(f"{MODULE} is not what {TABLE} says; run `python {Path(__file__)}`")
        return int(new != old)
    MODULE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
