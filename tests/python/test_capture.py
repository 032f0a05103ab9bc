"""The threat: a captured run of Python makes a test that fails as it is, that passes when the code has changed, or that tells what it should not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_kit import TIMEOUT_SECONDS, Ended, Home, environment

PROGRAM = """
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tiffany import receive_message, sleep, spawn, step, wait
from tiffany.calls import call

LEDGER = Path(__file__).with_name("ledger")

@dataclass
class Customer:
    email: str
    card: int
    key: bytes
    born: datetime
    tags: frozenset

@step
def find(email):
    born = datetime(1815, 12, 10, 8, 0, 0, 250, tzinfo=timezone.utc)
    return Customer(email, 4111222233334444, b"secret key", born, frozenset({"countess", "poet", "number"}))

@step
def charge(customer, cents):
    with LEDGER.open("a") as ledger:
        ledger.write(f"charged {customer.email}\\n")
    return {"receipt": f"{cents} from card {customer.card}", "key": customer.key, ("of", customer.email): 1}

@step
def refuse(customer):
    raise LookupError(f"{customer.email} owes", customer.card)

async def main(email, kind="ok"):
    customer = await find(email)
    done = await charge(customer, 1200)
    await sleep(0.001)
    if kind == "fails":
        await refuse(customer)
    if kind == "waits":
        await receive_message(f"answer of {email}")
    for tag in customer.tags:
        await charge.with_options(retries=1)(customer, len(tag))
    return done["receipt"]
"""

SECRETS = ["ada@", "example.org", "secret key", "c2VjcmV0IGtleQ"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("shop.py", PROGRAM)
    return home


def start(home: Home, run: str, *words: str) -> Ended:
    return home.run("run", "--wal", "wal", "--id", run, "shop.py", "ada@example.org", *words)


def capture(home: Home, run: str, *words: str, to: str = "tests") -> Ended:
    return home.run("--app", "shop.py", "--dir", "wal", "replay", run, "--capture", to, *words)


def run_tests(home: Home) -> Ended:
    """Runs pytest, from another directory, with another hash seed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"]
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    done = subprocess.run(
        [*command, str(home.path / "tests")],
        cwd=elsewhere,
        env=environment(PYTHONHASHSEED="7"),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    return Ended(done.returncode, done.stdout, done.stderr, 0)


def edit(home: Home, old: str, new: str) -> None:
    assert old in PROGRAM
    home.write("shop.py", PROGRAM.replace(old, new))


def test_a_captured_run_is_a_test_that_passes_until_the_code_changes(home: Home) -> None:
    start(home, "order-17").ok()
    printed = capture(home, "order-17").ok()
    assert printed == (
        "tests/order_17.wal: 19 records\ntests/test_order_17.py: `pytest tests/test_order_17.py`\n"
    )
    ledger = (home.path / "ledger").read_text()
    # The log is not needed any more.
    (home.path / "wal").rename(home.path / "gone")
    passed = run_tests(home)
    assert "1 passed" in passed.ok()
    edit(home, "await sleep(0.001)", "await sleep(0.001)\n    await find('bob')")
    failed = run_tests(home)
    assert failed.code == 1
    assert "likely a call was added" in failed.out, failed.out
    assert "shop.py:" in failed.out
    assert "[TFY0059]" in failed.out
    edit(home, 'return done["receipt"]', 'return done["receipt"] + "!"')
    assert 'the value "1200 from card 4111222233334444!"' in run_tests(home).out
    edit(home, "1200", "1201")
    assert "cents" in run_tests(home).out
    home.write("shop.py", PROGRAM + "\n# A comment does no harm.\n")
    assert "1 passed" in run_tests(home).ok()
    assert (home.path / "ledger").read_text() == ledger


def test_failed_and_unfinished_runs_make_tests_too(home: Home) -> None:
    assert start(home, "fails", "fails").code == 1
    with home.start(
        "run", "--wal", "wal", "--id", "w", "shop.py", "ada@example.org", "waits"
    ) as run:
        wait_for(home, "w", "receive_message")
        run.process.kill()
        run.process.wait()
    capture(home, "fails").ok()
    capture(home, "w").ok()
    assert "2 passed" in run_tests(home).ok()
    edit(home, "await refuse(customer)", "pass")
    failed = run_tests(home)
    assert "1 failed, 1 passed" in failed.out, failed.out
    assert "refuse" in failed.out


def wait_for(home: Home, run: str, call: str) -> None:
    for _ in range(600):
        if call in home.run("--dir", "wal", "--json", "log", run).out:
            return
    raise AssertionError(f"{run} never came to {call}")


def test_what_is_redacted_is_nowhere(home: Home) -> None:
    assert start(home, "ada@example.org", "fails").code == 1
    start(home, "fine").ok()
    rules = ["--redact", "email", "--redact", "card", "--redact", "key", "--redact", "born"]
    for run in ["ada@example.org", "fine"]:
        capture(home, run, *rules).ok()
    for file in (home.path / "tests").iterdir():
        if file.is_file():
            text = file.read_text()
            found = [secret for secret in [*SECRETS, "4111222233334444", "1815-"] if secret in text]
            assert not found, f"{found} in {file.name}:\n{text}"
    assert "aaa@aaaaaaa.aaa" in (home.path / "tests/fine.wal").read_text()
    assert "2 passed" in run_tests(home).ok()


def test_what_cannot_be_captured_is_told_and_leaves_nothing(home: Home) -> None:
    start(home, "order-17").ok()
    for words, code, exit_code in [
        (["order-17", "--redact", "phone"], "TFY0138", 1),
        (["order-17", "--redact", ""], "TFY0138", 1),
        (["order-17", "--redact", "cents", "--redact", "args"], "TFY0138", 1),
        (["order-18"], "TFY0041", 1),
        (["order-17", "--name", "../x"], "TFY0067", 2),
    ]:
        refused = capture(home, *words)
        assert (refused.code, f"error[{code}]" in refused.err) == (exit_code, True), refused
    plain = home.run("--dir", "wal", "replay", "order-17", "--capture", "tests")
    assert (plain.code, "error[TFY0063]" in plain.err) == (3, True), plain
    edit(home, "1200", 'int(__import__("os").environ.get("CENTS", "1200"))')
    changed = home.run(
        "--app", "shop.py", "--dir", "wal", "replay", "order-17", "--capture", "tests", CENTS="1"
    )
    assert (changed.code, "error[TFY0137]" in changed.err) == (1, True), changed
    assert "record 5" in changed.err
    assert not (home.path / "tests").exists()


def test_a_function_that_cannot_be_found_again_cannot_be_captured(home: Home) -> None:
    home.write(
        "made.py",
        """
import tiffany
from tiffany import step, workflow

@step
def note(text):
    return text

def maker(greeting):
    @workflow(name="greet")
    def greet(name):
        return (yield note(f"{greeting} {name}"))
    return greet

if __name__ == "__main__":
    print(tiffany.run(maker("hello")("ada"), wal="made", id="g"))
""",
    )
    with home.python("made.py", PYTHONHASHSEED="0") as python:
        assert python.end().ok() == "hello ada\n"
    refused = home.run("--app", "made.py", "--dir", "made", "replay", "g", "--capture", "tests")
    assert (refused.code, "error[TFY0137]" in refused.err) == (1, True), refused
    assert "`greet`" in refused.err
    assert not (home.path / "tests").exists()


def test_nothing_is_replaced_unasked(home: Home) -> None:
    start(home, "order-17").ok()
    home.write("tests/test_order_17.py", "mine")
    refused = capture(home, "order-17")
    assert (refused.code, "error[TFY0139]" in refused.err) == (1, True), refused
    assert [file.name for file in (home.path / "tests").iterdir()] == ["test_order_17.py"]
    capture(home, "order-17", "--name", "another").ok()
    capture(home, "order-17", "--force").ok()
    assert "2 passed" in run_tests(home).ok()
    shown = json.loads(capture(home, "order-17", "--force", "--json").ok())
    assert shown["test"] == "tests/test_order_17.py"
    assert shown["fixture"] == "tests/order_17.wal"
    assert (shown["records"], shown["redacted"]) == (19, 0)


def test_where_no_directory_can_be_made_the_error_says_so(home: Home) -> None:
    start(home, "order-17").ok()
    home.write("blocked", "a file where a directory should be")
    refused = capture(home, "order-17", to="blocked/tests")
    assert (refused.code, "error[TFY0105]" in refused.err) == (1, True), refused


def test_a_broken_test_says_what_is_wrong_and_what_helps(home: Home) -> None:
    start(home, "order-17").ok()
    capture(home, "order-17").ok()
    fixture = home.path / "tests/order_17.wal"
    lines = fixture.read_text().splitlines(keepends=True)
    for broken in ["", "tea\n", "".join(lines[:3]), "".join([lines[0], *lines[2:]]), None]:
        fixture.unlink()
        if broken is not None:
            fixture.write_text(broken)
        failed = run_tests(home)
        told = headline(failed)
        assert failed.code == 1
        assert ("is not a " if broken is not None else "there is no golden log") in told, told
        assert "capture the run again with `tiffany replay RUN --capture DIR --force`" in told, told
        assert "--golden-update" not in failed.out, failed.out
        assert "and the golden log" not in failed.out, failed.out
        fixture.write_text("")
    fixture.write_text("".join(lines))
    home.write("shop.py", "this is no Python\n")
    told = headline(run_tests(home))
    assert "cannot be compared" in told and "correct what is listed below" in told, told
    (home.path / "shop.py").unlink()
    told = headline(run_tests(home))
    assert "there is no " in told and "restore it, or name its new place" in told, told


def headline(failed: Ended) -> str:
    """The first line of the error."""
    return next(line for line in failed.out.splitlines() if line.startswith("E  "))


def test_short_values_in_the_codes_own_text_are_told(home: Home) -> None:
    home.write(
        "tea.py",
        """
from tiffany import spawn, step, wait

@step(name="pour tea")
def pour(sku):
    return f"{sku}!"

async def line(sku):
    return await pour(sku)

async def main(sku):
    return await wait(await spawn(line(sku), name=f"line {sku}"))
""",
    )
    home.run("run", "--wal", "wal", "--id", "t", "tea.py", "tea").ok()
    words = [
        "--app",
        "tea.py",
        "--dir",
        "wal",
        "replay",
        "t",
        "--capture",
        "tests",
        "--redact",
        "sku",
    ]
    refused = home.run(*words)
    assert (refused.code, "error[TFY0138]" in refused.err) == (1, True), refused
    assert "still has it at `/" in refused.err, refused.err
    home.run(*words, "--leave", "/name", "--leave", "/at", "--leave", "/function").ok()
    text = (home.path / "tests/t.wal").read_text()
    assert '"name":"line aaa"' in text, text
    assert "1 passed" in run_tests(home).ok()
