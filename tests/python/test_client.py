"""Clients: the same methods for threads and for asyncio, over the socket of a directory and over
HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_kit import KINDS, Daemon, Each, error_of, serve_answers, target, use
from command_kit import Home
from tiffany import AsyncClient, Client, Runtime, TiffanyError
from tiffany.client import Restarted, RunInfo
from tiffany.errors import (
    ClientSettingsError,
    LostDaemonError,
    NeedsFilesError,
    NoActivityError,
    NoSuchRunError,
    OldDaemonError,
    OtherRunError,
    RunHeldError,
    TaskCancelledError,
    TlsError,
    UnregisteredError,
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that all tests share that leave it alone."""
    with Daemon(Home(tmp_path_factory.mktemp("client"))) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def app(daemon: Daemon) -> Iterator[Any]:
    """The program of the daemon, in this process too."""
    spec = importlib.util.spec_from_file_location("app", daemon.home.path / "app.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["app"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["app"]


each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_a_result_is_an_object_of_its_class(daemon: Daemon, app: Any, kind: str) -> None:
    """By function and by name; the same id is the same run."""

    async def scenario(client: Each) -> None:
        id = f"order {kind}"
        run = await client.submit(app.order, "tea", 3, id=id)
        assert await client.result(run) == app.Order("tea", 3)
        again = await client.submit("client order", "tea", 3, id=id)
        assert again == run and await client.result(id) == app.Order("tea", 3)
        with pytest.raises(OtherRunError):
            await client.submit("client order", "coffee", 3, id=id)
        unnamed = await client.submit("client order", item="tea", count=1)
        assert (await client.result(unnamed.uuid)).count == 1

    use(daemon, kind, scenario)


@each_kind
def test_a_failure_is_raised_with_its_class(daemon: Daemon, app: Any, kind: str) -> None:
    """The program's own exceptions, and those of Tiffany."""

    async def scenario(client: Each) -> None:
        with pytest.raises(app.OutOfStock, match="none left"):
            await client.result(await client.submit(app.broken))
        with pytest.raises(NoSuchRunError):
            await client.result("never started")
        with pytest.raises(UnregisteredError):
            await client.submit("nothing")
        waits = await client.submit("client greet", "Ada")
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.2 seconds"):
            await client.result(waits, timeout=0.2)
        await client.hold(waits, why="lunch")
        with pytest.raises(RunHeldError, match="lunch"):
            await client.result(waits)
        await client.release(waits)
        await client.cancel(waits)
        with pytest.raises(TaskCancelledError):
            await client.result(waits)

    use(daemon, kind, scenario)


@each_kind
def test_a_run_is_talked_to(daemon: Daemon, kind: str) -> None:
    """Messages, queries, what it waits for, and its end."""

    async def scenario(client: Each) -> None:
        run = await client.submit("client greet", "Ada")
        assert await client.query(run, "who") == "Ada"
        shown = await client.show(run)
        assert (shown.state, shown.waits, shown.value) == ("live", ('message "nick"',), None)
        assert [task.waits_for for task in shown.task_list] == ['message "nick"']
        waiting = asyncio.create_task(client.result(run))
        if kind.startswith("async"):
            # A thread that waits would keep the message from being sent.
            await asyncio.sleep(0.2)
            assert not waiting.done()
        await client.send(run, "nick", "Countess")
        assert await waiting == "hello Ada, or Countess"
        assert (await client.show(run)).value == "hello Ada, or Countess"

    use(daemon, kind, scenario)


@each_kind
def test_questions_and_promises_are_answered(daemon: Daemon, kind: str) -> None:
    """Open questions with their payload; a promise is settled once."""

    async def scenario(client: Each) -> None:
        run = await client.submit("client asks")
        other = await client.submit("client asks")
        ours: dict[str, Any] = {}
        until = time.monotonic() + 10
        while len(ours) < 2:
            assert time.monotonic() < until, await client.list(function="client asks")
            open = await client.approvals()
            ours = {each.run: each for each in open if each.run in (str(run.uuid), str(other.uuid))}
        question = ours[str(run.uuid)]
        assert (question.question, question.payload) == ("ship it?", {"items": 3})
        decided = await client.approve(question.id, why="it is paid")
        assert (decided.choice, decided.rejected, decided.why) == ("yes", False, "it is paid")
        assert (await client.reject(ours[str(other.uuid)].id)).rejected
        assert [await client.result(run), await client.result(other)] == ["yes", "no"]

        run = await client.submit("client promised")
        promises: Any = ()
        while not promises and (await client.show(run)).state == "live":
            promises = (await client.show(run)).promises
        assert await client.settle(promises[0], {"paid": [1, 2]}) is True
        assert await client.result(run) == {"paid": [1, 2]}

    use(daemon, kind, scenario)


@each_kind
def test_runs_are_listed_page_by_page(daemon: Daemon, kind: str) -> None:
    """All filters, in either order, and more runs than a page has."""

    async def scenario(client: Each) -> None:
        ids = [f"{kind} {number}" for number in range(7)]
        for number, id in enumerate(ids):
            await client.submit("client order", "tea", number, id=id)
        for id in ids:
            await client.result(id)
        found = await client.list(text=kind + " ", sort="id", page=3)
        assert [run.id for run in found] == ids
        assert all(isinstance(run, RunInfo) and run.state == "completed" for run in found)
        assert [run.id for run in await client.list(text=kind + " ", page=2)] == ids[::-1]
        assert await client.list(text=kind + " ", state=["failed", "live"]) == []
        assert await client.list(text=kind + " ", function="client greet") == []
        between = await client.list(
            text=kind + " ", since=found[2].started, before=found[4].started
        )
        assert [run.id for run in between] == [ids[3], ids[2]]
        assert await client.list(text=kind + " ", before="2020-01-01") == []
        # A run of a list is a run.
        assert (await client.result(found[5])).count == 5
        with pytest.raises(TiffanyError, match="there is no state 'lost'"):
            await client.list(state="lost")

    use(daemon, kind, scenario)


async def message_of(daemon: Daemon, run: Any) -> int:
    """The record with the message of a run, when it is in the run's file."""
    file = daemon.wal / f"wal/{run.uuid}.wal"
    for _ in range(500):
        lines = file.read_text().splitlines() if file.exists() else []
        for line in lines:
            record = json.loads(line)
            if record["type"] == "Message":
                return int(record["seq"])
        await asyncio.sleep(0.01)
    raise AssertionError("no message was recorded")


@each_kind
def test_a_fork_has_another_answer(daemon: Daemon, kind: str) -> None:
    """It is found among the forks of its parent."""

    async def scenario(client: Each) -> None:
        parent = await client.submit("client greet", "Ada")
        await client.send(parent, "nick", "Countess")
        await client.result(parent)
        at = await message_of(daemon, parent)
        fork = await client.fork(parent, at, reply="Lady", id=f"fork {kind}")
        assert fork.id == f"fork {kind}"
        assert await client.result(fork) == "hello Ada, or Lady"
        (listed,) = await client.list(parent=parent)
        assert (listed.uuid, listed.parent, listed.parent_at) == (fork.uuid, parent.uuid, at)

    use(daemon, kind, scenario)


@each_kind
def test_the_rest_of_the_methods_answers(daemon: Daemon, kind: str) -> None:
    """Status, metrics, paused runs, doubts, removal."""

    async def scenario(client: Each) -> None:
        status = await client.status()
        assert "client greet" in status.workflows and status.pid != 0 and status.paused == []
        assert await client.paused() == [] and await client.doubts() == []
        metrics = await client.metrics()
        assert "# TYPE tiffany_runs_started_total counter" in str(metrics)
        assert metrics.value("tiffany_runs_started_total", kind="durable") is not None
        run = await client.submit("client order", "tea", 1)
        await client.result(run)
        await client.remove(run)
        with pytest.raises(TiffanyError) as removed:
            await client.show(run)
        assert error_of("TFY0130")(removed.value)
        with pytest.raises(TiffanyError) as decided:
            await client.decide("no key", again=True)
        assert decided.value.code.startswith("TFY")

    use(daemon, kind, scenario)


@each_kind
def test_the_events_of_a_run_end_with_it(daemon: Daemon, kind: str) -> None:
    """They are those of the run alone, in order, and none twice."""

    async def scenario(client: Each) -> list[Any]:
        run = await client.submit("client counts", 5)
        events = client.client.events(run, from_seq=0)
        if hasattr(events, "__aiter__"):
            async with events:
                return [event async for event in events]
        with events:
            return list(events)

    events = use(daemon, kind, scenario)
    assert [event.message for event in events if event.stage == "Progress"] == ["counting"] * 5
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert (events[-1].stage, events[-1].tid) == ("Completed", None)
    assert len({event.task_id for event in events}) == 1


def test_thousands_of_waits_cost_no_thread(daemon: Daemon) -> None:
    """They share one stream of events."""

    async def waits(place: str) -> None:
        async with AsyncClient(place) as client:
            many = range(1_500)
            runs = await asyncio.gather(*(client.submit("client naps", 1.0) for _ in many))
            threads = threading.active_count()
            results = asyncio.gather(*(client.result(run) for run in runs))
            await asyncio.sleep(0.5)
            assert threading.active_count() == threads
            assert await results == ["rested" for _ in many]

    for kind in ("async socket", "async http"):
        asyncio.run(waits(target(daemon, kind)))


def test_a_client_of_a_directory_without_a_process_owns_it(tmp_path: Path, app: Any) -> None:
    """What it changes takes effect with the next runtime; nobody is there to wait for."""
    with Runtime(wal=tmp_path / "wal") as runtime:
        run = runtime.submit(app.greet, "Ada", id="later")
        runtime.flush()
    with Client(tmp_path / "wal") as client:
        assert client.is_offline
        client.send(run, "nick", "Countess")
        with pytest.raises(NoActivityError) as offline:
            client.result(run)
        assert error_of("TFY0150")(offline.value)
        assert [(each.id, each.state) for each in client.runs()] == [("later", "live")]

    async def alone() -> None:
        async with AsyncClient(tmp_path / "wal", retry=0.1) as client:
            await client.status()

    with pytest.raises(LostDaemonError) as lost:
        asyncio.run(alone())
    assert error_of("TFY0300")(lost.value)


def test_the_handle_of_a_runtime_is_a_client(tmp_path: Path, app: Any) -> None:
    """Another thread submits and waits, while the runtime's thread drives the runs."""
    with Runtime(wal=tmp_path) as runtime:
        handle, told = runtime.handle, []
        assert isinstance(handle, Client)
        waits = runtime.submit(app.greet, "Ada", id="greet")

        def other() -> None:
            told.append(handle.result(handle.submit(app.order, "tea", 1)))
            handle.send(waits, "nick", "Countess")

        thread = threading.Thread(target=other)
        thread.start()
        assert runtime.wait(waits) == "hello Ada, or Countess"
        thread.join()
    assert told == [app.Order("tea", 1)]


@each_kind
def test_a_restart_of_the_daemon_is_waited_for(tmp_path: Path, kind: str) -> None:
    """A wait goes on with the next process, and so do events, which say so."""
    with Daemon(Home(tmp_path)) as daemon:

        async def scenario(client: Each) -> None:
            run = await client.submit("client naps", 2.0, id="naps")
            events = client.client.events()
            is_async = hasattr(events, "__aiter__")
            if is_async:
                await events.__aenter__()
            await client.submit("client order", "tea", 1, id="before")
            await client.result("before")
            daemon.kill()
            again = threading.Timer(0.4, daemon.start)
            again.start()
            assert await client.result(run) == "rested"
            again.join()
            seen: list[Any] = []
            while not (seen and isinstance(seen[-1], Restarted)):
                seen.append(await anext(events) if is_async else next(events))
            after = [await anext(events) if is_async else next(events) for _ in range(2)]
            assert after[0].seq == 1, "everything that the new process knows follows"
            events.close()

        use(daemon, kind, scenario)


def test_a_change_that_may_have_happened_is_not_repeated(tmp_path: Path) -> None:
    """A connection that breaks after the request was sent leaves it open whether it was done."""
    for url in serve_answers([b"", b""]):
        with Client(url, retry=5) as client:
            begun = time.monotonic()
            with pytest.raises(LostDaemonError, match="may have happened") as lost:
                client.send("run", "name", 1)
            assert error_of("TFY0300")(lost.value) and time.monotonic() - begun < 4


def test_a_request_that_was_not_begun_is_repeated() -> None:
    """The daemon says that it is starting; then it answers."""
    busy = json.dumps({"code": "TFY0159", "title": "the daemon is starting", "next": "wait"})
    refused = f"HTTP/1.1 503 No\r\nContent-Length: {len(busy)}\r\nConnection: close\r\n\r\n{busy}"
    done = "HTTP/1.1 204 Done\r\nConnection: close\r\n\r\n"
    for url in serve_answers([refused.encode(), refused.encode(), done.encode()]):
        with Client(url) as client:
            client.send("run", "name", 1)
    for url in serve_answers([refused.encode()]):
        with Client(url, retry=0) as client, pytest.raises(TiffanyError) as later:
            client.send("run", "name", 1)
        assert error_of("TFY0159")(later.value)


NO_PATH = json.dumps({"code": "TFY0162", "title": "there is no path", "next": "see /docs"})
OLD = f"HTTP/1.1 404 No\r\nContent-Length: {len(NO_PATH)}\r\n\r\n{NO_PATH}".encode()


@pytest.mark.parametrize(
    "answer",
    [
        OLD,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x03\x00\x02\x022\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300,
    ],
    ids=["no route", "no HTTP", "TLS", "no JSON", "a proxy", "no chunks", "headers"],
)
def test_what_is_no_daemon_of_this_version_is_told(answer: bytes) -> None:
    """An older daemon without the route, and other servers."""
    for url in serve_answers([answer] * 3):
        with Client(url, retry=0) as client, pytest.raises(OldDaemonError) as old:
            client.result("run")
        assert error_of("TFY0302")(old.value)


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("http://example.org:8787", {}, "unencrypted"),
        ("http://10.0.0.1", {"token": "x"}, "unencrypted"),
        ("ftp://localhost", {}, "not the URL of a daemon"),
        ("http://localhost:port", {}, "not a URL"),
        ("http://localhost/api", {}, "more than a scheme"),
        ("http://me:you@localhost", {}, "more than a scheme"),
        ("http://localhost", {"ca": "x.pem"}, "for https"),
        ("https://localhost", {"ca": "missing.pem"}, "certificates cannot be used"),
        ("http://localhost", {"token": "two words"}, "characters that no token has"),
        ("http://localhost", {"token": "a", "token_file": "b"}, "both"),
        ("http://localhost", {"token_file": "missing"}, "token file cannot be read"),
        ("directory", {"token": "x"}, "is a directory"),
    ],
)
@pytest.mark.parametrize("make", [Client, AsyncClient])
def test_a_client_that_cannot_be(make: Any, url: str, options: Any, says: str) -> None:
    """It is refused where it is made."""
    with pytest.raises(ClientSettingsError, match=says) as refused:
        make(url, **options)
    assert error_of("TFY0303")(refused.value)


def test_files_are_not_reached_over_http(daemon: Daemon) -> None:
    """What works on them says so."""
    with Client(daemon.url) as client:
        for method in (client.compact, client.prune, client.collect_blobs):
            with pytest.raises(NeedsFilesError) as refused:
                method()
            assert error_of("TFY0304")(refused.value)


def add_token(home: Home, name: str, *more: str) -> str:
    """Adds a token, and returns it."""
    added = home.run("--dir", "wal", "--json", "token", "add", name, "--role", "operator", *more)
    token: str = json.loads(added.ok())["token"]
    return token


@pytest.mark.parametrize("kind", ["sync http", "async http"])
def test_a_token_that_ends_in_the_middle_of_a_stream(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream and the wait end with the daemon's code; without a token nothing begins."""
    home = Home(tmp_path)
    config = home.write("daemon.toml", 'require_token = true\n[limits]\nping = "300ms"\n')
    with Daemon(home, ("--config", str(config))) as daemon:
        token = add_token(home, "ada", "--expires", "3s")

        async def scenario(client: Each) -> None:
            run = await client.submit("client greet", "Ada")
            events = client.client.events()
            with pytest.raises(TiffanyError) as expired:
                await client.result(run)
            assert expired.value.code in ("TFY0171", "TFY0172"), expired.value
            with pytest.raises(TiffanyError) as ended:
                while True:
                    _ = await anext(events) if hasattr(events, "__anext__") else next(events)
            assert ended.value.code in ("TFY0171", "TFY0172"), ended.value
            events.close()

        monkeypatch.setenv("TIFFANY_TOKEN", token)
        use(daemon, kind, scenario)
        monkeypatch.delenv("TIFFANY_TOKEN")

        async def refused(client: Each) -> None:
            with pytest.raises(TiffanyError) as missing:
                await client.status()
            assert error_of("TFY0170")(missing.value)

        use(daemon, kind, refused)
        file = home.write("token", add_token(home, "grace") + "\n")

        async def accepted(client: Each) -> None:
            assert (await client.status()).pid

        use(daemon, kind, accepted, token_file=file)


def certificates(home: Home) -> None:
    """An authority, and certificates of a server and of a client."""
    san = "subjectAltName=IP:127.0.0.1"
    for command in (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server -keyout server.key -out server.csr",
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=client -keyout client.key -out client.csr",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 2 -out server.pem -extfile san",
        "x509 -req -in client.csr -CA ca.pem -CAkey ca.key -days 2 -out client.pem -extfile san",
    ):
        home.write("san", san)
        subprocess.run(
            ["openssl", *command.split()], cwd=home.path, check=True, capture_output=True
        )


def test_tls_with_an_authority_and_a_certificate_of_the_client(tmp_path: Path) -> None:
    """What is missing on either side is said; with both, everything works."""
    home = Home(tmp_path)
    certificates(home)
    config = home.write(
        "daemon.toml",
        '[tls]\ncertificate = "server.pem"\nkey = "server.key"\nclients = "ca.pem"\n'
        '[tls.roles]\nclient = "operator"\n',
    )
    with Daemon(home, ("--config", str(config))) as daemon:
        url, ca = f"https://127.0.0.1:{daemon.port}", home.path / "ca.pem"
        cert = (home.path / "client.pem", home.path / "client.key")

        async def work(client: Any) -> None:
            told = client.submit("client naps", 0.1)
            run = await told if isinstance(client, AsyncClient) else told
            done = client.result(run)
            assert (await done if isinstance(client, AsyncClient) else done) == "rested"

        async def asynchronous() -> None:
            async with AsyncClient(url, ca=ca, cert=cert) as client:
                await work(client)
            async with AsyncClient(url, retry=0) as client:
                with pytest.raises(TlsError) as unknown:
                    await client.status()
                assert error_of("TFY0301")(unknown.value) and "`ca=`" in str(unknown.value)

        asyncio.run(asynchronous())
        with Client(url, ca=ca, cert=cert) as client:
            asyncio.run(work(client))
        with Client(url, ca=ca) as client, pytest.raises((TlsError, LostDaemonError)) as without:
            client.status()
        assert "`cert=`" in str(without.value) or isinstance(without.value, LostDaemonError)
        with Client(url, retry=0) as client, pytest.raises(TlsError, match="`ca=`"):
            client.status()
        plain = Client(daemon.url, retry=0)
        with plain, pytest.raises((OldDaemonError, LostDaemonError)):
            plain.status()


def test_no_tls_where_tls_is_expected(daemon: Daemon) -> None:
    """The daemon speaks plain HTTP."""
    with Client(f"https://127.0.0.1:{daemon.port}", retry=5) as client:
        begun = time.monotonic()
        with pytest.raises(TlsError, match="`http://`") as plain:
            client.status()
        assert error_of("TFY0301")(plain.value) and time.monotonic() - begun < 4


def test_an_iterator_of_events_is_closed_by_another_thread(daemon: Daemon) -> None:
    """A thread that waits for an event is woken."""
    for kind in ("sync socket", "sync http"):
        with Client(target(daemon, kind)) as client:
            events = client.events()
            closing = threading.Timer(0.2, events.close)
            closing.start()
            with contextlib.suppress(StopIteration):
                while True:
                    next(events)
            closing.join()
