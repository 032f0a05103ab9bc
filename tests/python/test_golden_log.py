"""Golden logs: recorded, compared, and what happens when the code has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import step, workflow
from tiffany.calls import CreateExternalPromise, Sleep, Wait
from tiffany.testing import GoldenLog

pytest_plugins = ["pytester"]

Steps = Generator[Any, Any, Any]

CALLS: list[str] = []
EXTRA: list[str] = []
"""What the code of today does besides."""
BONUS: list[int] = []
"""What it adds to its value."""


@step
def price(item: str) -> int:
    CALLS.append(item)
    return len(item)


@workflow
def order(item: str, count: int = 1) -> Steps:
    amount = yield price(item)
    yield from () if not EXTRA else (price(extra) for extra in EXTRA)
    yield Sleep(0.001)
    return amount * count + sum(BONUS)


@pytest.fixture(autouse=True)
def fresh() -> None:
    CALLS.clear()
    EXTRA.clear()
    BONUS.clear()


def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "kept" / "order.wal"
    GoldenLog(path, update=True)(order("tea", 2))
    return path


def test_a_log_is_recorded_and_the_same_code_agrees_with_it(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    assert CALLS == ["tea"]
    before = path.read_bytes()
    GoldenLog(path)(order("tea", 2))
    assert CALLS == ["tea"], "no step was done again"
    assert path.read_bytes() == before
    assert b'"function"' in before


def test_code_that_does_something_else_is_shown_where(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    EXTRA.append("milk")
    with pytest.raises(tiffany.errors.GoldenLogError) as caught:
        GoldenLog(path)(order("tea", 2))
    text = str(caught.value)
    assert caught.value.code == "TFY0059"
    assert isinstance(caught.value, AssertionError)
    assert "sleep" in text
    assert "step `price`" in text
    assert "likely a call was added" in text
    assert f"{__file__}:" in text
    assert "--golden-update" in text


def test_code_that_comes_to_another_end_is_shown(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    BONUS.append(1)
    with pytest.raises(
        tiffany.errors.GoldenLogError, match="now ends with the value 7, and ended with the"
    ):
        GoldenLog(path)(order("tea", 2))


def test_another_input_is_not_what_was_recorded(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    with pytest.raises(tiffany.errors.GoldenLogError, match='"coffee"'):
        GoldenLog(path)(order("coffee", 2))


def test_without_a_log_the_error_says_how_to_record_one(tmp_path: Path) -> None:
    with pytest.raises(
        tiffany.errors.GoldenLogError, match="record it again with `pytest --golden-update`"
    ):
        GoldenLog(tmp_path / "none.wal")(order("tea"))


def test_a_damaged_log_is_an_error(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"value":3', b'"value":4'))
    with pytest.raises(tiffany.TiffanyError, match="record"):
        GoldenLog(path)(order("tea", 2))
    recorded(tmp_path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    with pytest.raises(tiffany.errors.GoldenLogError, match="has no end"):
        GoldenLog(path)(order("tea", 2))
    path.write_bytes(b"")
    with pytest.raises(tiffany.errors.GoldenLogError, match="is not a log"):
        GoldenLog(path)(order("tea", 2))


def test_a_run_that_fails_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "fails.wal"
    with pytest.raises(ValueError, match="so"):
        GoldenLog(path, update=True)(fails())
    assert not path.exists()


@workflow
def fails() -> Steps:
    yield Sleep(0)
    raise ValueError("so")


@workflow
def approval() -> Steps:
    promise = yield CreateExternalPromise()
    PROMISES.append(promise.uuid)
    return (yield Wait(promise.future))


PROMISES: list[str] = []


def test_a_run_that_the_test_drives_itself_can_be_kept(tmp_path: Path) -> None:
    path, wal = tmp_path / "approval.wal", tmp_path / "wal"
    PROMISES.clear()

    def settle() -> None:
        while not PROMISES:
            time.sleep(0.001)
        tiffany.complete_by_uuid(PROMISES[0], "yes", wal=wal)

    settler = threading.Thread(target=settle)
    settler.start()
    assert tiffany.run(approval(), wal=wal, id="a-1") == "yes"
    settler.join()
    GoldenLog(path, update=True).keep(wal)
    GoldenLog(path).keep(wal)
    with pytest.raises(tiffany.errors.GoldenLogError, match="0 runs"):
        GoldenLog(path, update=True).keep(tmp_path / "empty")


@workflow
def greet(customer: dict[str, Any]) -> Steps:
    text = yield price(f"dear {customer['email']}")
    return [customer["email"], text, "long" * 10_000]


def test_one_of_many_runs_is_kept_without_what_is_redacted(tmp_path: Path) -> None:
    path, wal = tmp_path / "greet.wal", tmp_path / "wal"
    customer = {"email": "ada@example.org", "age": 36}
    for number in range(2):
        tiffany.run(greet(customer), wal=wal, id=f"g-{number}")
    kept = GoldenLog(path, update=True)
    with pytest.raises(tiffany.errors.GoldenLogError, match="has 2 runs"):
        kept.keep(wal)
    kept.keep(wal, "g-1", redact=["email"])
    text = path.read_text()
    assert "ada@" not in text
    assert "aaa@aaaaaaa.aaa" in text
    GoldenLog(path).keep(wal)
    for wrong, code in [("phone", "TFY0138"), ("", "TFY0138")]:
        with pytest.raises(tiffany.errors.RedactionError) as caught:
            kept.keep(wal, "g-1", redact=[wrong])
        assert caught.value.code == code
    with pytest.raises(tiffany.errors.NoSuchRunError):
        kept.keep(wal, "g-2")
    assert path.read_text() == text


def test_the_fixture_records_and_compares(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os
        import pytest
        from tiffany import step, workflow

        @step
        def double(n):
            return 2 * n

        @workflow
        def work(n):
            for _ in range(int(os.environ.get("ROUNDS", "2"))):
                n = yield double(n)
            return n

        @pytest.mark.parametrize("n", [1, 2])
        def test_work(golden_log, n):
            golden_log(work(n))
        """
    )
    name = "test_the_fixture_records_and_compares"
    missing = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    missing.assert_outcomes(failed=2)
    missing.stdout.fnmatch_lines(["*GoldenLogError: there is no golden log*"])
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "--golden-update").assert_outcomes(
        passed=2
    )
    kept = sorted(path.name for path in (pytester.path / "golden").iterdir())
    assert kept == [f"{name}-test_work-1.wal", f"{name}-test_work-2.wal"]
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUNDS", "3")
        parted = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    parted.assert_outcomes(failed=2)
    parted.stdout.fnmatch_lines(["*GoldenLogError: the code and the golden log*differ*"])
