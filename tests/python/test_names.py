"""Names of functions and classes in a log: those of the file that Python was started with are the ones under which it can be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_kit import environment

SHOP = """
import dataclasses, sys, tiffany
@dataclasses.dataclass
class Order:
    item: str
@tiffany.step
def pack(order): return Order(order.item + "!")
async def main(item): return (await pack(Order(item))).item
if __name__ == "__main__":
    {start}
    print(tiffany.run(main("tea"), wal="wal", id=sys.argv[1]))
"""


def python(home: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=home,
        env=environment(PYTHONHASHSEED="0"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["shop.py"], "shop:main"),
        (["-m", "shop"], "shop:main"),
        (["-m", "inner.shop"], "inner.shop:main"),
        (["-c", SHOP.format(start="import __main__")], "__main__:main"),
    ],
)
def test_a_file_that_was_started_has_the_name_it_is_imported_by(
    words: list[str], name: str, tmp_path: Path
) -> None:
    (tmp_path / "inner").mkdir()
    for file in ("shop.py", "inner/shop.py"):
        (tmp_path / file).write_text(SHOP.format(start=""))
    assert python(tmp_path, *words, "a") == "tea!"
    assert name in {line["function"] for line in runs(tmp_path)}
    # And the value of its step is of its class again.
    assert python(tmp_path, *words, "a") == "tea!"


@pytest.mark.parametrize("start", ["import shop", "import code"])
def test_a_module_of_the_same_name_is_told_apart(start: str, tmp_path: Path) -> None:
    file = "shop.py" if start.endswith("shop") else "code.py"
    (tmp_path / file).write_text(SHOP.format(start=start))
    for _ in range(2):
        assert python(tmp_path, file, "a") == "tea!"


def runs(home: Path) -> list[dict[str, str]]:
    done = python(home, "-m", "tiffany", "--dir", "wal", "--json", "ls")
    return [json.loads(line) for line in done.splitlines()]
