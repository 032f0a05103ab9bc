"""Measures tiffany beside its peers: ``python -m tiffany.bench``.

The peers come with ``pip install 'tiffany[bench]'``. One that is not installed is left out.
"""
