"""What functions and classes are called in a log: ``module:qualname``.

The module that Python was started with is called ``__main__`` while it runs, whatever its file is. In a log it has the name under which
others would import it, so that the functions of two files that share a directory are told apart.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

MAIN = ("__main__", "__mp_main__")
"""What Python calls the module that it was started with, and ``multiprocessing`` in a process of its own."""


def main_name() -> str | None:
    """The name of the module that Python was started with: of its file, or of the module after ``-m``. ``None`` where there is none, as in
    a notebook."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(main, "__file__", None)
    if not isinstance(file, str):
        return None
    stem = os.path.splitext(os.path.basename(file))[0]
    return None if ":" in stem or stem in MAIN else stem


def names(module: str, qualname: str) -> list[str]:
    """The names that a thing of a module can have, the best first.

    >>> names("shop.orders", "pack")
    ['shop.orders:pack']
    """
    known = main_name() if module in MAIN else None
    return [f"{name}:{qualname}" for name in (known, module) if name is not None]


def modules(name: str) -> list[ModuleType]:
    """The modules that can be meant by a name, as far as they are imported: the one of this name, and the one that Python was started with."""
    found = [sys.modules.get(name)]
    if name == main_name():
        found.append(sys.modules.get("__main__"))
    return [module for module in found if module is not None]
