"""What the tests of clients share: a daemon that can be killed and started again, and one way to use
all kinds of clients.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_kit import Home, Started
from tiffany import AsyncClient, AsyncRuntime, Client, Runtime

PROGRAM = """
from dataclasses import dataclass
from tiffany import progress, step, workflow
from tiffany.calls import Approve, CreateExternalPromise, ReceiveMessage, Sleep, Wait
from tiffany.durable import on_question


class OutOfStock(Exception):
    pass


@dataclass
class Order:
    item: str
    count: int


@step(kind="at_most_once", hold_in_doubt=True)
def pay(amount: int) -> int:
    import time
    time.sleep(30)
    return amount


@workflow(name="client order")
async def order(item: str, count: int) -> Order:
    return Order(item, count)


@workflow(name="client naps")
async def naps(seconds: float) -> str:
    await Sleep(seconds)
    return "rested"


@workflow(name="client greet")
async def greet(name: str) -> str:
    on_question("who", lambda: name)
    nick = await ReceiveMessage("nick")
    return f"hello {name}, or {nick}"


@workflow(name="client broken")
async def broken() -> None:
    raise OutOfStock("none left")


@workflow(name="client asks")
async def asks() -> str:
    said = await Approve("ship it?", payload={"items": 3})
    return said.choice


@workflow(name="client promised")
async def promised() -> object:
    promise = await CreateExternalPromise()
    return await Wait(promise.future)


@workflow(name="client pays")
async def pays() -> int:
    return await pay(7)


@workflow(name="client counts")
async def counts(to: int) -> int:
    for number in range(to):
        await progress(number + 1, to, "counting")
    return to
"""


def free_port() -> int:
    """A port that nobody has at present."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@dataclass
class Daemon:
    """A daemon in a process of its own."""

    home: Home
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    started: Started | None = None
    program: str = PROGRAM

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def wal(self) -> Path:
        return self.home.path / "wal"

    def start(self) -> None:
        """Starts it and waits until it serves."""
        listen = ("--listen", f"127.0.0.1:{self.port}")
        words = ("--app", "app.py", "--dir", "wal", "--json", "serve", *listen, *self.options)
        self.started = self.home.start(*words)
        told = self.started.line()
        assert json.loads(told)["event"] == "serving", told

    def kill(self) -> None:
        """Kills it at once."""
        assert self.started is not None
        self.started.signal(signal.SIGKILL)
        self.started.process.communicate()

    def __enter__(self) -> Daemon:
        self.home.write("app.py", self.program)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


KINDS = ("sync socket", "sync http", "async socket", "async http")
Use = Callable[[Any], Coroutine[Any, Any, Any]]


def target(daemon: Daemon, kind: str) -> str:
    """Whom a kind of client asks."""
    return daemon.url if kind.endswith("http") else str(daemon.wal)


def use(daemon: Daemon, kind: str, scenario: Use, **options: Any) -> Any:
    """Runs a scenario with a client of this kind. The scenario awaits whatever a method returns."""
    place = target(daemon, kind)

    async def awaited() -> Any:
        async with AsyncClient(place, **options) as client:
            return await scenario(Each(client))

    if kind.startswith("async"):
        return asyncio.run(awaited())
    with Client(place, **options) as client:
        return asyncio.run(scenario(Each(client)))


class Each:
    """A client or a runtime whose methods are awaited, whether it is one of asyncio or not."""

    def __init__(self, client: Client | AsyncClient | Runtime | AsyncRuntime) -> None:
        self.client: Any = client

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            told = getattr(self.client, name)(*args, **kwargs)
            return await told if inspect.isawaitable(told) else told

        return call

    async def list(self, **filters: Any) -> list[Any]:
        """All runs that fit."""
        told = self.client.runs(**filters)
        told = await told if inspect.isawaitable(told) else told
        return [run async for run in told] if hasattr(told, "__aiter__") else list(told)


def error_of(code: str) -> Callable[[BaseException], bool]:
    """Checks an error: its code, and that it says what to do next."""

    def fits(error: BaseException) -> bool:
        assert re.search(rf" \[{code}\]; \S", str(error)), error
        return getattr(error, "code", None) == code

    return fits


def serve_answers(answers: list[bytes]) -> Iterator[str]:
    """A server that answers each connection with the next of these bytes, and then closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for each in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                connection.recv(1 << 16)
                if each:
                    connection.sendall(each)
                    connection.shutdown(socket.SHUT_WR)
                    # What was not read would end the connection before the answer is.
                    connection.recv(1 << 16)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        os.close(os.dup(listener.fileno()))
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
