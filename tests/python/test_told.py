"""What people are told when something goes on that nobody asked about."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import Runtime, sleep, spawn, workflow
from tiffany.calls import ReceiveMessage
from tiffany.errors import UnreachableError


def test_a_failure_that_nobody_waited_for_is_shown_with_its_lines(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def deep() -> None:
        await sleep(0)
        raise ValueError("seen by nobody")

    async def bad() -> None:
        await deep()

    async def main() -> None:
        await spawn(bad(), name="bad")

    tiffany.run(main())
    told = capfd.readouterr().err
    assert "a task failed and no task waited for it: task 2 `bad`" in told
    assert "Traceback (most recent call last)" in told
    assert 'raise ValueError("seen by nobody")' in told
    assert told.index("in bad") < told.index("in deep")
    assert told.rstrip().endswith("ValueError: seen by nobody")


@workflow
def waits() -> Generator[Any, Any, str]:
    return str((yield ReceiveMessage("go on")))


def test_the_handle_on_the_runtime_s_own_thread_is_an_error_at_once(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(waits, id="one")
        begun = time.monotonic()
        for ask in (
            lambda: runtime.handle.query(run, "how"),
            lambda: runtime.handle.send(run, "go on", 1),
            lambda: runtime.handle.status(),
        ):
            with pytest.raises(UnreachableError, match="own thread") as raised:
                ask()
            assert raised.value.code == "TFY0043"
        assert time.monotonic() - begun < 5
        assert not runtime.handle.is_offline
