"""The benchmark of the Python package: ``python bench/python`` in a checkout."""

import runpy

runpy.run_module("tiffany_bench", run_name="__main__")
