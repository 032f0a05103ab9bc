"""Benchmarks of tiffany and its peers: ``python bench/python``.

Install the peers with ``pip install -r bench/python/requirements.txt``. Peers that are not installed are left out.
"""
