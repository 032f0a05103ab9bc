"""Benchmarks of tiffany and its peers: ``python -m tiffany.bench``.

Install the peers with ``pip install 'tiffany[bench]'``. Peers that are not installed are left out.
"""
