"""The programs of the book's page on durable Python, as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "src" / "python-durable.md"


@pytest.fixture
def programs(tmp_path: Path) -> list[Path]:
    """All blocks of the page that are whole programs, in a directory of their own."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    whole = [block for block in blocks if "import tiffany" in block]
    paths = [tmp_path / f"program{number}.py" for number in range(len(whole))]
    for path, block in zip(paths, whole, strict=True):
        path.write_text(block)
    return paths


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-u", str(path)]
    return subprocess.Popen(command, cwd=path.parent, text=True, stdout=subprocess.PIPE)


def output(path: Path) -> str:
    process = start(path)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return out


def test_they_do_what_the_page_says(programs: list[Path]) -> None:
    shop, bank, basket, connecting, counter, tally = programs
    process = start(shop)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("charging ada 1200 cents, key ")
    process.kill()
    process.communicate()
    again = output(shop)
    assert "to ada: receipt for 1200\nreceipt for 1200\n" in again
    # It may have been charged again if the kill came before the log had the result, and then with the same key.
    assert output(shop) == "receipt for 1200\n"
    assert output(counter) == "499500\n"
    assert output(tally) == "the total is 10\n10\n"
    assert output(bank) == output(bank) == "500\n"
    basket.write_text(basket.read_text().replace("        print(runtime.wait(run))", ""))
    cut = basket.read_text().replace('        runtime.send(run, "item", None)\n', "")
    basket.write_text(cut)
    assert output(basket) == "['tea']\n"
    output(connecting)
    basket.write_text(cut.replace('        runtime.send(run, "item", "tea")\n', ""))
    assert output(basket) == "['tea', 'milk']\n"
