"""Rules of redaction: no byte that a Python program writes has a secret, runs come back with placeholders, and bad rules are refused."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import HERE
from programs.secrets import PLACES, secret
from tiffany import Runtime, history, step, workflow
from tiffany.calls import ReceiveMessage

seen: list[object] = []


def forms(place: str) -> list[bytes]:
    """A secret as it may be written: as it is, as JSON and Python write it, and in base 64 whatever is around it."""
    text = secret(place)
    plain = text.encode()
    escaped = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]]
    coded = [base64.b64encode(b"x" * before + plain)[4:-4] for before in range(3)]
    return [plain, *(form.encode() for form in escaped), *coded]


def found(written: dict[str, bytes]) -> set[str]:
    return {
        f"{place} in {name}"
        for name, content in written.items()
        for place in PLACES
        if any(form in content for form in forms(place))
    }


def all_that_is_written(home: Path, without: str) -> dict[str, bytes]:
    """Everything that the program leaves: files, a backup, an export, and what it said."""
    env = {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "TIFFANY_TEST_HERE": os.fspath(home),
        "TIFFANY_TEST_SECRET": secret("variable"),
        "TIFFANY_TEST_WITHOUT": without,
    }
    said: dict[str, bytes] = {}
    for life in ["first", "second"]:
        program = [sys.executable, "programs/secrets.py"]
        ended = subprocess.run(program, cwd=HERE, env=env, capture_output=True)
        said[f"stdout of the {life}"] = ended.stdout
        said[f"stderr of the {life}"] = ended.stderr
        assert ended.returncode == {"first": -9, "second": 1}[life], ended
    assert said["stdout of the second"] == b"True\n", said
    wal = home / "wal"
    commands: list[list[str | Path]] = [
        ["backup", "create", home / "backup", "--dir", wal],
        ["log", "shop-1", "--dir", wal, "--format", "json", "--out", home / "export.json"],
    ]
    for words in commands:
        subprocess.run([sys.executable, "-m", "tiffany", *words], check=True, cwd=HERE)
    files = (path for path in home.rglob("*") if path.is_file())
    return {**said, **{os.fspath(path.relative_to(home)): path.read_bytes() for path in files}}


def test_no_byte_that_is_written_has_a_secret(tmp_path: Path) -> None:
    assert len(PLACES) >= 20
    written = all_that_is_written(tmp_path, "")
    # The second process ends with an exception of the program, which Python itself shows.
    traceback = written.pop("stderr of the second")
    assert secret("error").encode() in traceback
    assert found(written) == set()
    for part in ["wal/wal/", "backup/", "export.json", "stdout of the first"]:
        contents = [content for name, content in written.items() if name.startswith(part)]
        assert any(b"[redacted]" in content for content in contents), part


def test_without_rules_every_secret_is_found_somewhere(tmp_path: Path) -> None:
    places = {leak.split(" in ")[0] for leak in found(all_that_is_written(tmp_path, "all"))}
    # Chunks are shown to who watches, and what is in a store stays in memory.
    assert places == set(PLACES) - {"chunk", "store_value", "told", "tuple"}


def test_the_command_shows_a_traceback_without_secrets(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import tiffany\n"
        "def main():\n"
        "    with tiffany.Runtime(redact=['pattern sk-[0-9]+']) as runtime:\n"
        "        raise ValueError('no sk-123456')\n"
        "    yield\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "tiffany", "run", program], capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert "ValueError: no [redacted]" in ended.stderr
    assert "no sk-123456" not in ended.stderr.replace("raise ValueError('no sk-123456')", "")


@step
def passed(key: str) -> str:
    return key


@workflow
def looks(key: str, login: dict[str, Any]) -> Generator[Any, Any, list[object]]:
    seen.append((key, login, (yield passed(key))))
    seen.append((yield ReceiveMessage("more")))
    return [key, login]


def test_a_run_has_real_values_and_placeholders_after_a_restart(tmp_path: Path) -> None:
    rules = ["pattern sk-[0-9]+", "field password"]
    login = {"user": "ada", "password": "hunter2", "pin": 7}
    seen.clear()
    with Runtime(wal=tmp_path, redact=rules) as runtime:
        run = runtime.submit(looks, "sk-1234", login, id="look-1")
        runtime.run(until_seen(1))
    assert seen == [("sk-1234", login, "sk-1234")]
    seen.clear()
    with Runtime(wal=tmp_path, redact=rules) as runtime:
        taken_out = {**login, "password": "[redacted]"}
        assert seen == [("[redacted]", taken_out, "[redacted]")]
        # Another secret is no other start.
        again = runtime.submit(looks, "sk-9999", login, id="look-1")
        assert again.uuid == run.uuid
        with pytest.raises(tiffany.errors.OtherRunError):
            runtime.submit(looks, "sk-1234", {**login, "pin": 8}, id="look-1")
        runtime.send(run, "more", "sk-5678")
        assert runtime.wait(run) == ["[redacted]", taken_out]
        assert seen[1] == "sk-5678"
    assert history.check(tmp_path, workflows=[looks], redact=rules) == []


@workflow
def pays(card: str) -> Generator[Any, Any, str]:
    paid: str = yield note(card)
    return paid


@step
def note(card: str) -> str:
    return f"paid by {card}"


def test_one_run_has_rules_too(tmp_path: Path) -> None:
    rules = ["field card", r"pattern \d{4}-\d{4}"]
    paid = tiffany.run(pays("1234-5678"), wal=tmp_path, id="pay-1", redact=rules)
    assert paid == "paid by 1234-5678"
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"1234-5678" not in written
    assert b"paid by [redacted]" in written

    def fails() -> Generator[Any, Any, None]:
        yield tiffany.sleep(0)
        raise ValueError("no 1234-5678")

    with pytest.raises(tiffany.errors.BadRuleError):
        tiffany.run(fails(), redact=["hide card"])


def until_seen(count: int) -> Generator[Any, Any, None]:
    while len(seen) < count:
        yield tiffany.sleep(0.005)


def test_names_with_secrets_are_refused(tmp_path: Path) -> None:
    with Runtime(wal=tmp_path, redact=["pattern sk-[0-9]+"]) as runtime:
        with pytest.raises(tiffany.errors.SecretNameError, match=r"`look-\[redacted\]`"):
            runtime.submit(looks, "a", {}, id="look-sk-1234")
        run = runtime.submit(looks, "a", {}, id="look-1")
        with pytest.raises(tiffany.errors.SecretNameError):
            runtime.send(run, "sk-1234", 1)


@pytest.mark.parametrize(
    ("rules", "error", "part"),
    [
        (["hide password"], tiffany.errors.BadRuleError, "`hide` is not a kind of rule"),
        (["field a..b"], tiffany.errors.BadRuleError, "a name between its points is empty"),
        (["pattern ("], tiffany.errors.BadPatternError, "unclosed group"),
        (["pattern (?=a)"], tiffany.errors.BadPatternError, "look-around"),
        (["value abc"], tiffany.errors.NoValueError, "too short"),
        (["env TIFFANY_THAT_IS_NOT_SET"], tiffany.errors.NoValueError, "it is not set"),
        ([7], tiffany.errors.BadArgumentError, "a rule of `redact` is a text"),
        ("field a", tiffany.errors.BadArgumentError, "`redact` is a list"),
    ],
)
def test_bad_rules_are_refused(rules: Any, error: type[Exception], part: str) -> None:
    with pytest.raises(error) as raised:
        Runtime(redact=rules)
    assert part in str(raised.value)
