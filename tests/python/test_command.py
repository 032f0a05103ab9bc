"""`tiffany run FILE.py` and the rest of the command line, as processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_kit import Home, environment

PROGRAM = """
import sys
from dataclasses import dataclass

import tiffany
from tiffany import sleep
from tiffany.calls import Ask, ask, Sleep


@dataclass
class Order:
    item: str


def main(item="tea", count="1"):
    yield Sleep(0)
    return f"{count} {item}"


async def about():
    await sleep(0)
    print(sys.argv, sys.path[0], __name__, __file__, Order.__module__)
    print(sys.modules["__main__"].Order is Order, __spec__)


async def add(*numbers):
    await sleep(0)
    return sum(numbers)


async def environment():
    return [await ask("colour"), await ask("size")]


async def order(item):
    await sleep(0)
    return Order(item)


async def fails():
    await sleep(0)
    raise ValueError("no tea")


async def deadlock():
    promise = await tiffany.calls.create_promise()
    await tiffany.wait(promise.future)


async def leaves(how):
    await sleep(0)
    sys.exit(None if how == "well" else int(how) if how.isdigit() else how)


def plain():
    return 3


class Shop:
    @staticmethod
    async def close():
        return "closed"


number = 7

if __name__ == "__main__":
    print("started by itself:", tiffany.run(main("by itself")))
elif __name__ == "other":
    pass
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write("app.py", PROGRAM)
    return home


def test_a_function_of_a_file_is_run_and_its_value_printed(home: Home) -> None:
    assert home.run("run", "app.py").ok() == "1 tea\n"
    assert home.run("run", "app.py", "cake", "2").ok() == "2 cake\n"
    assert home.run("run", "app.py:main", "cake").ok() == "1 cake\n"
    assert home.run("run", "app.py:Shop.close").ok() == "closed\n"


def test_the_script_does_the_same(home: Home) -> None:
    script = Path(sys.executable).with_name("tiffany")
    command = [str(script), "run", "app.py", "cake"]
    done = subprocess.run(
        command, cwd=home.path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "1 cake\n"), done.stderr


def test_arguments_after_the_file_are_the_programs_own(home: Home) -> None:
    assert home.run("run", "app.py", "--json", "--help").ok() == "--help --json\n"


def test_with_json_arguments_and_value_are_json(home: Home) -> None:
    assert home.run("--json", "run", "app.py:add", "1", "2.5", "3").ok() == "6.5\n"
    assert json.loads(home.run("run", "--json", "app.py", '"a\\"b"', "null").ok()) == 'None a"b'
    written = json.loads(home.run("run", "--json", "app.py:order", '"tea"').ok())
    assert written["$dataclass"] == "app:Order", written


def test_tasks_can_ask_for_what_was_typed(home: Home) -> None:
    given = ("--env", "colour=red", "--env", "size=a=b")
    assert home.run("run", *given, "app.py:environment").ok() == "['red', 'a=b']\n"
    as_json = ("--json", "--env", "colour=[1]", "--env", "size=null")
    assert home.run("run", *as_json, "app.py:environment").ok() == "[[1],null]\n"


def test_the_file_finds_what_python_file_py_gives_it(home: Home) -> None:
    home.write("shop/app.py", PROGRAM)
    out = home.run("run", "shop/app.py:about").ok()
    path = home.path / "shop"
    assert out.splitlines() == [
        f"['shop/app.py'] {path} __main__ {path / 'app.py'} __main__",
        "True None",
    ]


def test_modules_beside_the_file_are_found(home: Home) -> None:
    home.write("shop/prices.py", "PRICE = 42\n")
    home.write("shop/app.py", "import prices\nasync def main():\n    return prices.PRICE\n")
    assert home.run("run", "shop/app.py").ok() == "42\n"


def test_what_stands_under_name_is_main_is_for_python_alone(home: Home) -> None:
    with home.python("app.py") as started:
        assert started.end().ok() == "started by itself: 1 by itself\n"
    assert "itself" not in home.run("run", "app.py").ok()
    home.write(
        "b.py", 'if "__main__" == __name__ and True:\n    1 / 0\nasync def main(): return 1\n'
    )
    assert home.run("run", "b.py").ok() == "1\n"


def test_the_hash_seed_is_the_same_in_every_process(home: Home) -> None:
    home.write("b.py", "async def main(): return list({'a', 'b', 'c', 'd', 'e', 'f'})\n")
    once = home.run("run", "b.py").ok()
    for seed in ("1", "42", "random"):
        assert home.run("run", "b.py", PYTHONHASHSEED=seed).ok() == once


def test_where_the_environment_is_ignored_it_starts_all_the_same(home: Home) -> None:
    with home.python("-I", "-m", "tiffany", "run", "app.py") as started:
        assert started.end().ok() == "1 tea\n"


def test_the_process_stays_the_same_one(home: Home) -> None:
    home.write("b.py", "import os\nasync def main(): return os.getpid(), dict(os.environ)\n")
    with home.start("run", "b.py") as started:
        pid = started.process.pid
        out = started.end().ok()
    assert out.startswith(f"({pid}, ")
    assert "TIFFANY_HASH_SEED" not in out


def test_an_exception_is_shown_with_the_lines_of_the_program_only(home: Home) -> None:
    ended = home.run("run", "app.py:fails")
    assert ended.code == 1
    lines = ended.err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith("in fails")
    assert lines[-1] == "ValueError: no tea"
    assert "_command" not in ended.err


def test_errors_have_the_form_that_all_commands_give_them(home: Home) -> None:
    ended = home.run("run", "app.py:deadlock")
    assert ended.code == 1
    assert "TFY0024" in ended.err
    ended = home.run("run", "--json", "app.py:fails")
    shown = json.loads(ended.err)
    assert (ended.code, shown["exit"]) == (1, 1)
    assert shown["error"]["code"] == "TFY0001"
    assert shown["error"]["message"] == "ValueError: no tea"


def test_a_program_may_end_itself(home: Home) -> None:
    assert home.run("run", "app.py:leaves", "well").ok() == ""
    assert home.run("run", "app.py:leaves", "7").code == 7
    ended = home.run("run", "app.py:leaves", "why")
    assert (ended.code, ended.err) == (1, "why\n")


@pytest.mark.parametrize(
    ("words", "code", "exit", "says"),
    [
        (["run", "no.py"], "TFY0070", 1, "No such file"),
        (["run", "."], "TFY0070", 1, "directory"),
        (["run", "app.py:mian"], "TFY0071", 1, "`app.py:main`"),
        (["run", "app.py:number"], "TFY0071", 1, "is not a function but a `int`"),
        (["run", "app.py", "a", "b", "c"], "TFY0072", 2, "main(item='tea', count='1')"),
        (["run", "app.py:order"], "TFY0072", 2, "missing a required argument: 'item'"),
        (["run", "app.py:plain"], "TFY0073", 1, "returned a `int`"),
        (["run", "--json", "app.py", "tea"], "TFY0064", 2, "is not JSON"),
        (["run"], "TFY0067", 2, "required"),
        (["run", "--id", "a", "app.py"], "TFY0067", 2, "--wal"),
        (["run", "--env", "a", "app.py"], "TFY0067", 2, "KEY=VALUE"),
        (["--dir", "x", "run", "app.py"], "TFY0067", 2, "--wal"),
        (["walk"], "TFY0067", 2, "walk"),
        (["--dir", "nowhere", "ls"], "TFY0060", 1, "no log"),
    ],
)
def test_what_makes_no_sense_is_said(
    home: Home, words: list[str], code: str, exit: int, says: str
) -> None:
    ended = home.run(*words)
    assert (ended.code, ended.out) == (exit, ""), ended
    assert f"error[{code}]: " in ended.err or f'"code":"{code}"' in ended.err, ended.err
    assert says in ended.err
    assert "Traceback" not in ended.err


def test_a_file_that_is_no_python_is_shown_where_it_is_wrong(home: Home) -> None:
    home.write("b.py", "async def main():\n    return (\n")
    ended = home.run("run", "b.py")
    assert ended.code == 1
    assert "b.py" in ended.err
    assert "SyntaxError: '(' was never closed" in ended.err
    home.write("c.py", "import nowhere_to_be_found\n")
    ended = home.run("run", "c.py")
    assert ended.code == 1
    assert "ModuleNotFoundError" in ended.err
    assert "importlib" not in ended.err


def test_the_wheel_has_every_command_of_the_binary_and_run(home: Home) -> None:
    listed = home.run("--help").ok().split("Runs:\n")[1].split("Global options:")[0]
    commands = {line.split()[0] for line in listed.splitlines() if line.startswith("  ")}
    source = Path(__file__).parents[2] / "crates/cli/src/dispatch.rs"
    dispatched = set(re.findall(r"Command::([A-Z]\w+)\([^)]*\)+ =>", source.read_text()))
    daemon = {"serve", "demo", "token", "audit", "config"}
    assert {name.lower() for name in dispatched} | daemon | {"run"} == commands
    assert home.run("--version").ok().startswith("tiffany 0.")


def test_completions_know_run(home: Home) -> None:
    script = home.run("completions", "bash").ok()
    assert "tiffany__subcmd__run" in script or "tiffany__run" in script
    assert "--app" in script


def test_every_code_has_a_section_in_the_book(home: Home) -> None:
    pages = Path(__file__).parents[2] / "docs/src"
    book = "".join(page.read_text() for page in pages.glob("*.md"))
    package = Path(__file__).parents[2] / "python/tiffany"
    codes = {
        code for file in package.rglob("*.py") for code in re.findall(r"TFY\d{4}", file.read_text())
    }
    assert len(codes) > 20
    missing = sorted(
        code for code in codes if f"\n### {code}" not in book and f"\n## {code}" not in book
    )
    assert missing == []


def test_the_demo_starts_its_processes_from_the_wheel(home: Home) -> None:
    events = [json.loads(line) for line in home.run("--json", "demo", "d").ok().splitlines()]
    assert (events[-1]["event"], events[-1]["killed"]) == ("proof", 3)


@pytest.mark.parametrize("way", ["script", "module"])
def test_the_commands_that_the_demo_prints_work_in_a_shell(home: Home, way: str) -> None:
    python = Path(sys.executable)
    environ = environment() | {"PATH": f"{python.parent}:/usr/bin:/bin"}
    started = ["tiffany"] if way == "script" else [str(python), "-m", "tiffany"]
    demo = subprocess.run(
        [*started, "demo", "--listen", "127.0.0.1:0", "a trip"],
        cwd=home.path,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    _, _, rest = demo.stdout.partition("Look at it yourself:\n")
    commands = [line.strip() for line in rest.splitlines() if "  # " in line]
    assert len(commands) == 5
    typed = "tiffany" if way == "script" else f"{python.name} -m tiffany"
    assert [command.startswith(f"{typed} --dir '") for command in commands[:3]] == [True] * 3
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=home.path, env=environ, capture_output=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, b""), (command, done)


def test_a_pipe_that_nobody_reads_is_no_error(home: Home) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tiffany", "run", "app.py"]
    done = subprocess.run(
        command, cwd=home.path, env=environment(), stdout=write, stderr=subprocess.PIPE, timeout=60
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
