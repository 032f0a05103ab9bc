"""The names of functions and classes in a log: ``module:qualname``.

Python calls the main module ``__main__``, whatever its file is. In a log it has the name under
which other modules would import it, so that functions of two files in the same directory can be
told apart.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

MAIN = ("__main__", "__mp_main__")
"""Python's names for the main module, here and in processes started by ``multiprocessing``."""


def main_name() -> str | None:
    """Returns the name of the main module, from its file or from the argument of ``-m``. Returns
    ``None`` if there is none, as in a notebook.
    """
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
    """Returns the possible names of an object in a module, the best first.

    >>> names("shop.orders", "pack")
    ['shop.orders:pack']
    """
    known = main_name() if module in MAIN else None
    return [f"{name}:{qualname}" for name in (known, module) if name is not None]


def modules(name: str) -> list[ModuleType]:
    """Returns the imported modules that a name can refer to: the one with this name, and the main
    module.
    """
    found = [sys.modules.get(name)]
    if name == main_name():
        found.append(sys.modules.get("__main__"))
    return [module for module in found if module is not None]
