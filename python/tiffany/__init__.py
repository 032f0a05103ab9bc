"""Durable coroutines: tasks that survive anything."""

from tiffany._core import __version__

__all__ = ["__version__"]
