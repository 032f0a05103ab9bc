"""Counts the words of many files: each file is a step, and the counts are added in pairs.

    tiffany run examples/python/map_reduce.py
    tiffany run examples/python/map_reduce.py:count_words docs/src
    tiffany run --wal /tmp/words --id docs examples/python/map_reduce.py:count_words docs/src

The last command starts a durable run: if it is killed, it continues where it stopped, and files
that were counted are not counted again.
"""

from __future__ import annotations

import collections
import pathlib
import random
import re
import sys
import tempfile
from typing import Any

import tiffany
from tiffany import gather, spawn, step, workflow

Counts = dict[str, int]


@step(queue="disk")
def files_in(folder: str) -> list[str]:
    """Returns the files of a folder, sorted."""
    return sorted(str(path) for path in pathlib.Path(folder).rglob("*") if path.is_file())


@step(queue="disk", retries=2)
def words_of(file: str) -> Counts:
    """Counts the words of one file. The step runs on a thread; in a durable run its result is
    recorded.
    """
    text = pathlib.Path(file).read_text(errors="replace")
    return dict(collections.Counter(re.findall(r"\w+", text.lower())))


async def map_one(file: str) -> Counts:
    counts: Counts = await words_of(file)
    return counts


async def reduce_two(left: tiffany.calls.Task[Counts], right: tiffany.calls.Task[Counts]) -> Counts:
    """Adds the counts of two tasks as soon as both have finished."""
    one, other = await gather(left, right)
    total = collections.Counter(one)
    total.update(other)
    return dict(total)


@workflow
async def count_words(folder: str, most: str = "3") -> list[tuple[str, int]]:
    """Returns the most common words of a folder."""
    layer = [await spawn(map_one(file), name=file) for file in await files_in(folder)]
    while len(layer) > 1:
        pairs = zip(layer[::2], layer[1::2], strict=False)
        above = [await spawn(reduce_two(left, right)) for left, right in pairs]
        layer = above + layer[len(above) * 2 :]
    counts = await tiffany.wait(layer[0]) if layer else {}
    # Equally common words are sorted alphabetically, so that the result is always the same.
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: int(most)]


#: How many files are open at once.
tiffany_settings: dict[str, Any] = {"queues": {"disk": 4}}


async def main(files: str = "40") -> list[tuple[str, int]]:
    """Creates files and counts their words."""
    draw = random.Random(7)
    expected: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(int(files)):
            words = draw.choices(["tea", "cake", "cup", "spoon", "sugar"], [5, 4, 3, 2, 1], k=200)
            expected.update(words)
            pathlib.Path(folder, f"{number:04}.txt").write_text(" ".join(words))
        found = await count_words(folder)
    assert found == expected.most_common(3), (found, expected)
    return found


if __name__ == "__main__":
    print(tiffany.run(main(*sys.argv[1:]), **tiffany_settings))
