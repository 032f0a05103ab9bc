"""Processes that are killed with SIGKILL, or interrupted, and go on until they are over."""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from durable_kit import Ledger, finish, kill_until_over, python, records, types, wait_for

ORDERS, ITEMS = 6, 4
# Python ends itself by the signal, unless that is blocked where the test runs.
INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_random_moments_it_comes_to_its_end_and_does_everything_once(
    seed: int, tmp_path: Path
) -> None:
    out = kill_until_over("programs/orders.py", tmp_path, seed=seed)
    ledger = Ledger(tmp_path / "ledger").read()
    charged = {int(line.split()[1]) for line in ledger if line.startswith("charge")}
    shown = out.splitlines()
    assert len(shown) == ORDERS
    for order, line in enumerate(shown):
        found = re.fullmatch(r"(\d+) (\[.*\]) (\d+|None)", line)
        assert found is not None, out
        assert int(found[1]) == order
        assert found[2] == str([order * 100 + item for item in range(ITEMS)])
        assert found[3] == "None" or order in charged
    # What must not be done twice was not; what may be was done under one key each.
    assert all(ledger.count(f"charge {order}") <= 1 for order in range(ORDERS))
    keys: dict[str, set[str]] = defaultdict(set)
    for line in ledger:
        what, _, key = line.rpartition(" ")
        if what.startswith(("pack", "ship")):
            keys[what].add(key)
    assert len(keys) == ORDERS * (ITEMS + 1)
    assert all(len(of) == 1 for of in keys.values()), keys
    # Every step has one result, and none was done after it.
    results = [
        record["of"]
        for record in records(tmp_path / "wal")
        if record["type"] == "EffectResult" and "retry_at" not in record
    ]
    assert len(results) == len(set(results)) == ORDERS * (ITEMS + 2)
    begun: dict[int, bool] = {}
    for record in records(tmp_path / "wal"):
        if record["type"] == "EffectStart":
            assert record["of"] not in begun
        if record["type"] == "EffectResult" and "retry_at" not in record:
            begun[record["of"]] = True


@pytest.mark.parametrize("which", ["waiting", "busy", "step"])
def test_ctrl_c_leaves_the_run_as_it_is(which: str, tmp_path: Path) -> None:
    process = python("programs/interrupted.py", tmp_path, which)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    ledger = Ledger(tmp_path / "ledger")
    if which == "step":
        wait_for(lambda: "begun" in ledger.read())
    process.send_signal(signal.SIGINT)
    (tmp_path / "go on").touch()
    code, _, err = finish(process)
    assert code in INTERRUPTED, err
    assert "KeyboardInterrupt" in err
    assert "finally" not in ledger.read()
    assert types(tmp_path / "wal")[-1] == "ShutdownMarker"
    if which == "step":
        # The interpreter does not end under a step that is at work.
        assert "ended" in ledger.read()
    code, out, err = finish(python("programs/interrupted.py", tmp_path, which))
    assert (code, out) == (0, "ready\n3\n"), err
    assert ledger.read().count("first") == ledger.read().count("finally") == 1


def test_a_second_ctrl_c_ends_the_process_as_a_crash_does(tmp_path: Path) -> None:
    process = python("programs/interrupted.py", tmp_path, "busy")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    wait_for(lambda: not pending(process.pid))
    process.send_signal(signal.SIGINT)
    code, _, _ = finish(process)
    assert code in INTERRUPTED
    assert Ledger(tmp_path / "ledger").read() == ["first"]


def pending(pid: int) -> bool:
    """Whether a signal waits to be seen by a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)$", status, re.M)
    return any(int(mask, 16) for mask in masks)
