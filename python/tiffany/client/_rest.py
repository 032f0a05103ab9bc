"""How each request is asked over HTTP, and what its answer is in the form of the socket. A table:
one function for each request that the daemon has a route for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from tiffany.client._http import HttpRequest

Answer = Callable[[Any], Any]
"""Makes of the JSON that came what the socket would have answered."""

API = "/api/v1"
_ENCODED = (("Tiffany-Values", "encoded"),)


class Raw(str):
    """A text that is JSON already."""


def dumps(value: Any) -> str:
    """Writes JSON, in which `Raw` texts stand as they are.

    >>> dumps({"a": Raw("[1,2]"), "b": ["x", None]})
    '{"a":[1,2],"b":["x",null]}'
    """
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(dumps, value)) + "]"
    return json.dumps(value)


def http_of(name: str, given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    """Returns a request in the form of HTTP, and how its answer is read."""
    return _TABLE[name](given)


def _get(path: str, query: dict[str, Any] | None = None) -> HttpRequest:
    asked = {key: value for key, value in (query or {}).items() if value is not None}
    tail = f"?{urlencode(asked)}" if asked else ""
    return HttpRequest("GET", API + path + tail)


def _post(path: str, body: dict[str, Any] | None = None) -> HttpRequest:
    sent = {key: value for key, value in (body or {}).items() if value is not None}
    return HttpRequest("POST", API + path, dumps(sent), headers=_ENCODED)


def _run(given: dict[str, Any], tail: str = "") -> str:
    return f"/runs/{quote(given['run'], safe='')}{tail}"


def _done(_: Any) -> Any:
    return None


def _submit(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    body = {key: value for key, value in given.items() if key != "options"}
    options = given.get("options") or {}
    body |= {"tags": options.get("tags"), "attributes": options.get("attributes")}
    if "deadline" in options:
        body["deadline"] = _deadline(options["deadline"])
    return _post("/runs", body), lambda told: {"run": told["uuid"], "is_new": told["new"]}


def _deadline(given: dict[str, Any]) -> str | float:
    """Returns a deadline: a moment, or seconds from the start."""
    if "at" in given:
        return _moment(given["at"])
    after = given["after"]
    return float(after["secs"] + after["nanos"] / 1e9)


def _runs(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    query = dict(given)
    query["state"] = ",".join(query.pop("states")) or None
    query["order"] = "desc" if query.pop("descending") else "asc"
    for name in ("since", "before"):
        if name in query:
            query[name] = _moment(query[name])
    # A comma separates tags, unless it stands between quotation marks.
    query["tag"] = ",".join(map(json.dumps, query.pop("tags", ()))) or None
    query["attribute"] = ",".join(query.pop("attributes", ())) or None
    return _get("/runs", query), lambda told: told


def _settle(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    result = given["result"]
    body = {"run": given.get("run"), "value": result.get("Ok")}
    if "Err" in result:
        # Over HTTP an error is its message.
        body = {"run": given.get("run"), "error": json.loads(result["Err"])["message"]}
    request = _post(f"/promises/{given['promise']}", body)
    return request, lambda told: "Accepted" if told["first"] else "Ignored"


def _question(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    request = _post(
        _run(given, f"/queries/{quote(given['name'], safe='')}"), {"input": given["input"]}
    )
    return request, lambda told: told["answer"]


def _fork(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    fork = json.loads(given["fork"])
    reply = fork["reply"] or {}
    body = {"at": given["at"], "id": fork["id"], "as_is": fork["as_is"], "allow": fork["allow"]}
    if "value" in reply:
        body["value"] = Raw(json.dumps(reply["value"]))
    if "error" in reply:
        body["error"] = reply["error"]["message"]
    request = _post(_run(given, "/forks"), body)
    return request, lambda told: {"run": told["uuid"], "id": told["id"]}


def _resolve(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    ruling = given["ruling"]
    pick, because = ruling["pick"], ruling.get("why")
    choice = pick["choice"] if isinstance(pick, dict) else None
    word = "reject" if pick == "no" else "approve"
    run, _, call = given["approval"].rpartition("/")
    place = "/".join(quote(part, safe="") for part in (run, call) if part)
    return _post(
        f"/approvals/{place}/{word}", {"choice": choice, "because": because}
    ), lambda told: told


def _decide(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    decision = given["decision"]
    said = {"again": True} if decision == "again" else decision
    return _post("/doubts", {"key": given["key"], **said}), _done


def _metrics(_: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    return HttpRequest("GET", "/metrics"), lambda told: told


def _show(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    return _get(_run(given)), lambda told: told


def _outcome(given: dict[str, Any]) -> tuple[HttpRequest, Answer]:
    wait = int(given.get("wait") or 0) or None
    return _get(_run(given, "/outcome"), {"wait": wait}), _outcome_told


def _outcome_told(told: dict[str, Any]) -> dict[str, Any]:
    if "value" in told:
        return {**told, "recorded": {"Ok": told["value"]}}
    return {**told, "recorded": {"Err": told["failure"]}} if "failure" in told else told


def _moment(nanoseconds: int) -> str:
    whole, part = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{part:09}Z"


def _reason(word: str) -> Callable[[dict[str, Any]], tuple[HttpRequest, Answer]]:
    return lambda given: (_post(_run(given, f"/{word}"), {"why": given.get("why")}), _done)


_TABLE: dict[str, Callable[[dict[str, Any]], tuple[HttpRequest, Answer]]] = {
    "status": lambda _: (_get("/status"), lambda told: told),
    "submit": _submit,
    "runs": _runs,
    "show": _show,
    "outcome": _outcome,
    "send": lambda given: (
        _post(_run(given, "/messages"), {"name": given["name"], "message": given["message"]}),
        _done,
    ),
    "settle": _settle,
    "cancel": lambda given: (_post(_run(given, "/cancel")), _done),
    "hold": _reason("hold"),
    "release": _reason("release"),
    "question": _question,
    "fork": _fork,
    "allow": lambda given: (_post(_run(given, "/allow"), {"names": given["names"]}), _done),
    "remove": lambda given: (HttpRequest("DELETE", f"{API}/runs/{given['runs'][0]}"), _done),
    "metrics": _metrics,
    "doubts": lambda _: (_get("/doubts"), lambda told: told["doubts"]),
    "decide": _decide,
    "approvals": lambda _: (_get("/approvals"), lambda told: told["approvals"]),
    "resolve": _resolve,
}
