"""The benchmark is not part of the package any more: run ``python bench/python`` in a checkout."""

import sys

if __name__ == "__main__":
    sys.exit(
        "the benchmark is not in the package; run `python bench/python` in a checkout of tiffany"
    )
