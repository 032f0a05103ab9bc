"""`tiffany serve` with a file of Python: its page in the book, as a newcomer follows it."""

import contextlib
import json
import re
import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from command_kit import TIMEOUT_SECONDS, Home, Started
from serve_kit import ask, refused, submit

PAGE = Path(__file__).parents[2] / "docs" / "src" / "daemon.md"


def served(home: Home) -> Started:
    """A daemon in a process of its own."""
    return home.start("--app", "greet.py", "serve", "--json", "--listen", "127.0.0.1:0")


def program() -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def stop(daemon: Started, number: signal.Signals) -> None:
    daemon.signal(number)
    ended = daemon.end()
    # Nothing of tasks that keep their turn: none has one.
    assert not ended.err, ended
    assert ended.code == 0, ended
    assert [json.loads(line)["event"] for line in ended.out.splitlines()] == ["ending", "ended"]


def test_the_page_of_the_book_can_be_followed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("greet.py", program())
    with served(home) as daemon:
        said = json.loads(daemon.line())
        assert said["functions"] == ["greet"]
        status = ask(said["url"] + "/api/v1/status")
        (greet,) = status["functions"]
        assert (greet["name"], greet["language"]) == ("greet", "python")
        assert greet["takes"] == "name: str"
        assert greet["input"]["properties"] == {"name": {"type": "string"}}
        assert greet["input"]["required"] == ["name"]
        runs = said["url"] + "/api/v1/runs"
        run = {"function": "greet", "id": "greet-1", "input": {"name": "Ada"}}
        assert ask(runs, run)["new"]
        assert not ask(runs, run)["new"]
        assert ask(f"{runs}/greet-1")["state"] == "live"
        stop(daemon, signal.SIGINT)
    with served(home) as daemon:
        said = json.loads(daemon.line())
        assert said["live"] == 1
        runs = said["url"] + "/api/v1/runs"
        ask(f"{runs}/greet-1/messages", {"name": "nick", "message": "Countess"})
        shown = ask(f"{runs}/greet-1?wait=30")
        assert shown["value"] == "hello Ada, or Countess", shown
        assert ask(f"{runs}/greet-1/replay", {})["verdict"] == "identical"
        stop(daemon, signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_a_configuration_names_leaves_signals_to_the_daemon(
    tmp_path: Path, number: signal.Signals
) -> None:
    home = Home(tmp_path)
    home.write("greet.py", program())
    home.write("tiffany.toml", 'app = "greet.py"\n[log]\nlevel = "warn"\n')
    listen = ("--listen", "127.0.0.1:0")
    with home.start("serve", "--json", "--config", "tiffany.toml", *listen) as daemon:
        assert json.loads(daemon.line())["functions"] == ["greet"]
        stop(daemon, number)


STEPS = """
import time

import tiffany


@tiffany.step
def work(path):
    open(path, "w").close()
    time.sleep(2)


@tiffany.workflow
async def slow(path):
    await work(path)
"""


def test_an_input_that_does_not_fit_is_refused_with_its_code(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("greet.py", STEPS)
    with served(home) as daemon:
        runs = json.loads(daemon.line())["url"] + "/api/v1/runs"
        problem = refused(runs, {"function": "slow", "id": "s", "input": {"file": "x"}})
        assert (problem["status"], problem["code"]) == (422, "TFY0035"), problem
        assert "`path` is not in it" in problem["title"], problem
        assert problem["next"] and "TFY" not in problem["title"], problem
        stop(daemon, signal.SIGTERM)


ORDERS = """
from tiffany import workflow


@workflow(name="order")
async def order(item: str, count: int = 1) -> str:
    return f"{count} {item}"
"""


def test_who_submits_a_wrong_input_is_told_once_what_the_function_takes(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("greet.py", ORDERS)
    takes = 'it takes (item: str, count: int = 1), such as {"item": "text"}'
    with served(home) as daemon:
        daemon.line()
        for given, what in [
            ("40", "40 is not an object with the names of its parameters"),
            ('{"thing": "tea"}', "`item` is not in it, it has no parameter `thing`"),
            ('["tea", 1, 2]', "too many positional arguments"),
        ]:
            ended = home.run("submit", "order", "--input", given)
            assert ended.code == 1, ended
            assert ended.err.startswith("error[TFY0035]: the input does not fit `order`: "), ended
            assert what in ended.err and takes in ended.err, ended
            assert ended.err.count("TFY") == 1 and "next: correct `--input`" in ended.err, ended
        ended = home.run("submit", "order", "--input", '{"item": "text"}', "--wait")
        assert ended.ok() == '"1 text"\n'
        # Who writes a name that is not there is told what there is.
        ended = home.run("submit", "ordre", "--input", "{}")
        assert "[TFY0038]" in ended.err and "did you mean `order`?" in ended.err, ended
        stop(daemon, signal.SIGTERM)


FAILING = """
import json

from tiffany import step, workflow


@step
def read(text):
    return json.loads(text)


def inner(text):
    raise ValueError(f"no {text}")


@workflow(name="reads")
async def reads(text: str) -> None:
    await read(text)


@workflow(name="raises")
async def raises(text: str) -> None:
    inner(text)
"""


def test_a_failure_is_shown_with_its_line_and_the_way_there(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("greet.py", FAILING)
    raised = FAILING.splitlines().index('    raise ValueError(f"no {text}")') + 1
    read = FAILING.splitlines().index("    return json.loads(text)") + 1
    with served(home) as daemon:
        url = json.loads(daemon.line())["url"]
        for function, line, source in [
            ("raises", raised, 'raise ValueError(f"no {text}")'),
            ("reads", read, "return json.loads(text)"),
        ]:
            wait = ("--id", function, "--input", '{"text": "tea"}', "--wait")
            ended = home.run("submit", function, *wait)
            # The innermost line that is the program's own: not that of a module of Python's.
            at = f"raised at {tmp_path}/greet.py:{line}"
            assert ended.code == 1 and at in ended.err, ended
            shown = home.run("show", function).ok()
            assert at in shown and source in shown, shown
            log = home.run("log", function, "--failed").ok()
            assert at in log, log
            assert f'     File "{tmp_path}/greet.py", line {line}, in ' in log, log
            assert f"         {source}" in log, log
            assert "tiffany/_" not in log, log
            # As the page is told it.
            with urllib.request.urlopen(f"{url}/api/v1/runs/{function}/tasks") as answer:
                error = json.load(answer)["tasks"][0]["error"]
            assert error["raised_at"] == f"{tmp_path}/greet.py:{line}", error
            assert any(line.strip() == source for line in error["trace"]), error
            # Only where it is asked for.
            assert source not in home.run("log", function).ok()
            again = home.run("--app", "greet.py", "replay", function).ok()
            assert "identical" in again, again
        daemon.signal(signal.SIGTERM)
        ended = daemon.end()
        assert ended.code == 0, ended
        # Each failed run is logged, with its line.
        logged = [json.loads(line) for line in ended.err.splitlines()]
        assert [line["fields"]["run_id"] for line in logged] == ["raises", "reads"]
        for line, number in zip(logged, (raised, read), strict=True):
            assert line["level"] == "ERROR", line
            assert f"raised at {tmp_path}/greet.py:{number}" in line["message"], line


def test_a_secret_in_a_line_of_code_is_not_written_down(tmp_path: Path) -> None:
    home = Home(tmp_path)
    secret = "sk-0123456789"
    home.write("greet.py", FAILING.replace("inner(text)\n", f"inner('{secret}')\n"))
    home.write("tiffany.toml", 'redact = ["pattern sk-[0-9]{10}"]\n')
    listen = ("--listen", "127.0.0.1:0", "--config", "tiffany.toml")
    with home.start("--app", "greet.py", "serve", "--json", *listen) as daemon:
        daemon.line()
        ended = home.run("submit", "raises", "--id", "r", "--input", '{"text": "tea"}', "--wait")
        assert ended.code == 1 and "raised at " in ended.err, ended
        daemon.signal(signal.SIGTERM)
        assert secret not in daemon.end().err
    for file in (tmp_path / ".tiffany").rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_the_end_waits_for_a_step_and_blames_no_task(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("greet.py", STEPS)
    begun = tmp_path / "begun"
    with served(home) as daemon:
        runs = json.loads(daemon.line())["url"] + "/api/v1/runs"
        ask(runs, {"function": "slow", "id": "s", "input": {"path": str(begun)}})
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not begun.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        stop(daemon, signal.SIGINT)


SPINS = """
import contextlib
import dataclasses
import os
import re

import tiffany


@tiffany.workflow
async def spins():
    try:
        while True:
            pass
    except Exception:
        pass


@tiffany.workflow
async def grinds():
    await tiffany.sleep(0.2)
    # The interpreter is never let go in here.
    re.match(r"(a+)+$", "a" * 60 + "b")


@tiffany.workflow
async def cleans_up(path):
    try:
        while True:
            pass
    finally:
        await note(path)


@tiffany.workflow
async def kills():
    await greet("Ada")
    os._exit(7)


@tiffany.workflow
async def hoards():
    for number in range(150):
        await tiffany.calls.put(f"piece {number}", "x" * 5_000_000 + str(number))


@tiffany.workflow
async def never_lets_go():
    try:
        await tiffany.sleep(3600)
    finally:
        while True:
            pass


@tiffany.workflow
async def catches(path):
    try:
        while True:
            pass
    except BaseException:
        await note(path)


@tiffany.workflow
async def catches_again():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


@tiffany.workflow
async def suppresses():
    while True:
        with contextlib.suppress(BaseException):
            forever()


def forever():
    try:
        forever_inside()
    finally:
        while True:
            pass


def forever_inside():
    while True:
        try:
            while True:
                pass
        except:
            continue


@dataclasses.dataclass
class Endless:
    name: str

    def __post_init__(self):
        if self.name == "endless":
            forever()


@tiffany.workflow
async def checked(item: Endless):
    return item.name


@tiffany.workflow
async def asked():
    tiffany.durable.on_question("status", lambda how: forever() if how == "long" else how)
    await tiffany.receive_message("done")


@tiffany.step
def note(path):
    open(path, "w").close()


@tiffany.workflow
async def quick(name):
    return await greet(name)


@tiffany.step
def greet(name):
    return f"hello {name}"
"""


def spinning(home: Home, *more: str, turn: str = "1s") -> Started:
    home.write("spins.py", SPINS)
    limits = f'[run_limits]\nturn = "{turn}"\nmemory_bytes = "200MB"\n'
    home.write("tiffany.toml", 'app = "spins.py"\n' + limits)
    listen = ("--listen", "127.0.0.1:0")
    return home.start("serve", "--json", "--config", "tiffany.toml", *listen, *more)


def await_state(run: str, state: str) -> None:
    deadline = time.monotonic() + 20
    while ask(run)["state"] != state and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ask(run)["state"] == state


def test_a_workflow_that_spins_is_interrupted_and_held_and_others_go_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        spins = submit(url, "spins", {})
        quick = submit(url, "quick", {"name": "Ada"})
        assert ask(f"{quick}?wait=20")["value"] == "hello Ada"
        shown = ask(spins)
        assert shown["state"] == "held", shown
        assert shown["error"]["code"] == "TFY0235"
        assert "kept its turn for" in shown["error"]["message"]
        daemon.signal(signal.SIGKILL)
    # It is not replayed by the next process, and can be released and cancelled there.
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        spins = f"{url}/api/v1/runs/spins"
        assert ask(spins)["state"] == "held"
        ask(f"{spins}/release", {"why": "it may have been the machine"})
        deadline = time.monotonic() + 20
        types: list[str] = []
        while len(types) < 3 and time.monotonic() < deadline:
            time.sleep(0.1)
            records = ask(f"{spins}/records?type=RunHeld,RunReleased")["records"]
            types = [record["type"] for record in records]
        assert types == ["RunHeld", "RunReleased", "RunHeld"]
        assert ask(spins)["state"] == "held"
        # The release doubled the time that its turns may take.
        assert "kept its turn for 2 s" in ask(spins)["error"]["message"]


def test_a_second_cancel_ends_a_run_whose_cleanup_spins(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        run = submit(url, "never_lets_go", {})
        ask(f"{run}/cancel", {})
        await_state(run, "held")
        daemon.signal(signal.SIGKILL)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        run = f"{url}/api/v1/runs/never_lets_go"
        assert ask(run)["state"] == "held"
        ask(f"{run}/cancel", {})
        shown = ask(run)
        assert shown["state"] == "cancelled", shown
        assert "its end was forced while it had task 1" in shown["error"]["message"]
        ask(f"{url}/api/v1/runs", {"function": "never_lets_go", "id": "again", "input": {}})
        second = f"{url}/api/v1/runs/again"
        ask(f"{second}/cancel", {})
        await_state(second, "held")
        ask(f"{second}/cancel", {})
        assert ask(second)["state"] == "cancelled"


@pytest.mark.parametrize("function", ["cleans_up", "catches"])
def test_what_code_does_about_its_interruption_never_happened(
    tmp_path: Path, function: str
) -> None:
    home = Home(tmp_path)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        path = tmp_path / "noted"
        run = submit(url, function, {"path": str(path)})
        deadline = time.monotonic() + 20
        while ask(run)["state"] != "held" and time.monotonic() < deadline:
            time.sleep(0.1)
        assert ask(run)["state"] == "held"
        records = ask(f"{run}/records")["records"]
        assert [record["type"] for record in records] == ["RunStart", "RunHeld"]
        ask(f"{run}/release", {})
        time.sleep(0.5)
        assert not path.exists()
        # It can be cancelled, although its code never lets go.
        while ask(run)["state"] != "held" and time.monotonic() < deadline:
            time.sleep(0.1)
        assert ask(run)["state"] == "held"


@pytest.mark.parametrize("function", ["catches_again", "suppresses"])
def test_a_loop_that_catches_everything_is_interrupted(tmp_path: Path, function: str) -> None:
    home = Home(tmp_path)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        stubborn = submit(url, function, {})
        quick = submit(url, "quick", {"name": "Ada"})
        assert ask(f"{quick}?wait=20")["value"] == "hello Ada"
        shown = ask(stubborn)
        assert (shown["state"], shown["error"]["code"]) == ("held", "TFY0235"), shown
        daemon.signal(signal.SIGTERM)
        assert daemon.end().code == 0


def test_an_input_that_takes_too_long_to_read_is_refused_and_others_go_on(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        runs = url + "/api/v1/runs"
        given = {"function": "checked", "id": "c", "input": {"item": {"name": "endless"}}}
        told = refused(runs, given)
        assert told["code"] == "TFY0245", told
        assert "input of `spins:checked`" in told["title"], told
        turns = ask(url + "/api/v1/stuck")["turns"]
        assert [turn["name"] for turn in turns] == ["input of `spins:checked`"], turns
        # Nothing of it is left, and its id can be used.
        assert ask(runs)["runs"] == []
        given["input"] = {"item": {"name": "short"}}
        ask(runs, given)
        assert ask(f"{runs}/c?wait=20")["value"] == "short"
        daemon.signal(signal.SIGTERM)
        assert daemon.end().code == 0


def test_an_answer_that_takes_too_long_is_given_up_and_named_meanwhile(tmp_path: Path) -> None:
    home = Home(tmp_path)
    # It is named after a second.
    with spinning(home, turn="3s") as daemon:
        url = json.loads(daemon.line())["url"]
        run = submit(url, "asked", {})
        answers: list[Any] = []
        question = (f"{run}/queries/status", {"input": "long"})
        asking = threading.Thread(target=lambda: answers.append(refused(*question)))
        asking.start()
        deadline = time.monotonic() + 20
        seen: list[str] = []
        while asking.is_alive() and time.monotonic() < deadline:
            turns = ask(url + "/api/v1/stuck")["turns"]
            seen += [turn["name"] for turn in turns if not turn["is_over"]]
            asking.join(0.05)
        asking.join()
        assert set(seen) == {"answer to the question `status`"}, seen
        assert answers[0]["code"] == "TFY0245", answers
        # The run is as it was.
        assert ask(run)["state"] == "live"
        assert ask(f"{run}/queries/status", {"input": "short"}) == {"answer": "short"}
        daemon.signal(signal.SIGTERM)
        assert daemon.end().code == 0


def test_a_workflow_that_kills_the_daemon_is_held_after_three_deaths(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for life in range(3):
        with spinning(home) as daemon:
            if life == 0:
                url = json.loads(daemon.line())["url"]
                body = {"function": "kills", "id": "kills", "input": {}}
                # The daemon may die before it has answered.
                with contextlib.suppress(OSError):
                    ask(f"{url}/api/v1/runs", body)
            assert daemon.end().code == 7
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        shown = ask(f"{url}/api/v1/runs/kills")
        assert shown["state"] == "held", shown
        assert "the process died 3 times" in shown["error"]["message"]
        quick = submit(url, "quick", {"name": "Ada"})
        assert ask(f"{quick}?wait=20")["value"] == "hello Ada"


def test_what_a_workflow_puts_into_its_store_counts_as_memory(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        run = submit(url, "hoards", {})
        await_state(run, "held")
        assert "bytes of memory" in ask(run)["error"]["message"]
        quick = submit(url, "quick", {"name": "Ada"})
        assert ask(f"{quick}?wait=20")["value"] == "hello Ada"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_ends_within_its_grace_period_whatever_a_task_does(
    tmp_path: Path, number: signal.Signals
) -> None:
    home = Home(tmp_path)
    with spinning(home, "--grace", "2s") as daemon:
        url = json.loads(daemon.line())["url"]
        submit(url, "grinds", {})
        time.sleep(1)
        began = time.monotonic()
        daemon.signal(number)
        ended = daemon.end()
        assert time.monotonic() - began < 8
        assert ended.code == 128 + number, ended
        assert "ended after the grace period of 2s: task 1 " in ended.err, ended


OUTLASTS = """
import time

import tiffany


@tiffany.step
def outlasts(path):
    open(path, "a").write("begun ")
    time.sleep(600)


@tiffany.workflow
async def waits(path):
    await outlasts(path)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_that_cuts_off_a_step_says_so(tmp_path: Path, number: signal.Signals) -> None:
    home = Home(tmp_path)
    home.write("greet.py", OUTLASTS)
    path = tmp_path / "begun"
    words = ("--app", "greet.py", "serve", "--json", "--listen", "127.0.0.1:0", "--grace", "1s")
    with home.start(*words) as daemon:
        submit(json.loads(daemon.line())["url"], "waits", {"path": str(path)})
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        daemon.signal(number)
        ended = daemon.end()
        assert (ended.code, ended.err) == (128 + number, ""), ended
        assert json.loads(ended.out.splitlines()[-1]) == {"event": "ended", "cut_off": True}
    # It is done again by the next one.
    with home.start(*words) as daemon:
        daemon.line()
        while path.read_text() != "begun begun " and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.read_text() == "begun begun "


def test_after_a_kill_the_run_that_made_the_daemon_hang_is_held(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        submit(url, "grinds", {})
        deadline = time.monotonic() + 20
        marker = next(iter(tmp_path.glob("**/wal"))).parent / "turn.json"
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert marker.exists()
        daemon.signal(signal.SIGKILL)
    with spinning(home) as daemon:
        url = json.loads(daemon.line())["url"]
        shown = ask(f"{url}/api/v1/runs/grinds")
        assert shown["state"] == "held", shown
        assert "kept its turn for" in shown["error"]["message"]
        assert not marker.exists()
        quick = submit(url, "quick", {"name": "Ada"})
        assert ask(f"{quick}?wait=20")["value"] == "hello Ada"
