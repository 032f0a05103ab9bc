"""HTTP/1.1 and server-sent events, as programs: what is sent and read, and not how one waits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiffany.client import _failures
from tiffany.client._io import MAX_LINE_BYTES, Program

_MAX_HEADERS = 200


@dataclass(frozen=True)
class HttpRequest:
    """A request: its method, its path with the query, and its JSON if there is any."""

    method: str
    path: str
    body: str | None = None
    accept: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def what(self) -> str:
        """Returns the request as errors name it."""
        return f"`{self.method} {self.path.partition('?')[0]}`"


@dataclass(frozen=True)
class Head:
    """The beginning of an answer."""

    status: int
    headers: Mapping[str, str]

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection can be used again."""
        return self.headers.get("connection", "").lower() != "close"


def text_of(request: HttpRequest, host: str, token: str | None) -> bytes:
    """Returns a request as it is sent."""
    headers = [("Host", host), ("Accept", request.accept), *request.headers]
    if token is not None:
        headers.append(("Authorization", f"Bearer {token}"))
    body = b"" if request.body is None else request.body.encode()
    if request.method != "GET":
        headers.append(("Content-Length", str(len(body))))
    if request.body is not None:
        headers.append(("Content-Type", "application/json"))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"{request.method} {request.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def head(wire: Any, timeout: float | None) -> Program[Head]:
    """Reads the beginning of an answer."""
    first = yield lambda _: wire.line(timeout)
    parts = first.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/1.") or not parts[1].isdigit():
        raise _failures.not_a_daemon("it does not speak HTTP/1.1")
    headers: dict[str, str] = {}
    for _ in range(_MAX_HEADERS):
        line = (yield lambda _: wire.line(timeout)).strip()
        if not line:
            return Head(int(parts[1]), headers)
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    raise _failures.not_a_daemon("it sends headers without an end")


def body(wire: Any, head: Head, timeout: float | None) -> Program[bytes]:
    """Reads the body of an answer."""
    if head.status in (204, 304):
        return b""
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        pieces: list[bytes] = []
        while piece := (yield from chunk(wire, timeout)):
            pieces.append(piece)
        return b"".join(pieces)
    length = head.headers.get("content-length")
    if length is not None:
        count = int(length)
        return (yield lambda _: wire.exactly(count, timeout)) if count else b""
    rest: bytes = yield lambda _: wire.rest(timeout)
    return rest


def chunk(wire: Any, timeout: float | None) -> Program[bytes]:
    """Reads the next chunk of a body; the last one is empty."""
    line = yield lambda _: wire.line(timeout)
    try:
        size = int(line.split(b";")[0], 16)
    except ValueError:
        raise _failures.not_a_daemon("it sends chunks without a size") from None
    if size > MAX_LINE_BYTES:
        raise _failures.not_a_daemon(f"it sends a chunk of {size} bytes")
    data: bytes = yield lambda _: wire.exactly(size + 2, timeout)
    return data[:-2]


class ServerSentEvents:
    """The events of a body that comes in chunks."""

    def __init__(self, wire: Any) -> None:
        self._wire = wire
        self._bytes = b""

    def next(self, timeout: float | None) -> Program[tuple[str, Any] | None]:
        """Returns the next event, its name and its data. ``None``: the stream has ended. An event
        without a name is only a sign of life.
        """
        while (end := self._bytes.find(b"\n\n")) < 0:
            piece = yield from chunk(self._wire, timeout)
            if not piece:
                return None
            self._bytes += piece
        text, self._bytes = self._bytes[:end], self._bytes[end + 2 :]
        name, data = "", ""
        for line in text.decode().split("\n"):
            field, _, value = line.partition(":")
            if field == "event":
                name = value.strip()
            elif field == "data":
                data += value.strip()
        return (name, json.loads(data) if data else None)
