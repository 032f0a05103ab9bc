"""The code of runs that are examined: settings of a runtime without a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tiffany._arguments import check_names
from tiffany._settings import ReplaySettings, core_settings
from tiffany.durable import _workflows


def program(
    what: str, workflows: Iterable[Callable[..., Any]], settings: ReplaySettings
) -> dict[str, Any]:
    """Returns the settings of a runtime with these functions, in addition to those decorated with
    ``@workflow``.
    """
    check_names(what, settings, ["wal", "workflows", *ReplaySettings.__annotations__])
    return core_settings(_workflows.Functions(workflows), settings)
