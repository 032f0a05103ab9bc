"""What the tests of `tiffany serve` share: requests to a daemon over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from command_kit import TIMEOUT_SECONDS


def ask(address: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def refused(address: str, body: object) -> Any:
    try:
        ask(address, body)
    except urllib.error.HTTPError as error:
        return json.loads(error.read())
    raise AssertionError("it was not refused")


def submit(url: str, function: str, given: dict[str, Any], id: str | None = None) -> str:
    """Starts a run, under the name of its function unless it is given an id, and gives its address."""
    runs, id = url + "/api/v1/runs", id or function
    ask(runs, {"function": function, "id": id, "input": given})
    return f"{runs}/{id}"
