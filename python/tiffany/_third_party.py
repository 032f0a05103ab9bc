"""Objects of other packages that their exceptions carry, such as the response in an
``httpx.HTTPStatusError``: the parts of them that are recorded. No package is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

MAX_CONTENT_BYTES = 64 * 1024
"""As much is recorded of the content of a response."""
_UNRECORDED_HEADERS = {"set-cookie", "content-encoding", "content-length", "transfer-encoding"}
"""Headers that contain secrets, or describe the content as it was sent and not as it is recorded."""


class NotRecorded(str):
    """The text of an object that an exception carried and that was not recorded."""

    of_class: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(
            f"`{name}` of this `{self.of_class}` was not recorded: the log has only the text of the object; let the step "
            "keep in the exception what is needed, or teach the codec the type with `tiffany.codec.register`",
            name=name,
            obj=self,
        )


def not_recorded(text: str, of_class: str) -> NotRecorded:
    """Makes the text that stands for an object of a class.

    >>> not_recorded("<a lock>", "threading:Lock").locked
    Traceback (most recent call last):
        ...
    AttributeError: `locked` of this `threading:Lock` was not recorded: the log has only the text of the object; let the step keep in the exception what is needed, or teach the codec the type with `tiffany.codec.register`
    """
    made = NotRecorded(text)
    made.of_class = of_class
    return made


def taken_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Returns the name of the class of an object and the parts that are recorded, or ``None`` for a
    class that is not known here.
    """
    cls = type(value)
    name = f"{cls.__module__}:{cls.__qualname__}"
    known = _KNOWN.get(name)
    return None if known is None else (name, known[0](value))


def put_together(name: str, parts: dict[str, Any]) -> Any:
    """Makes an object from its parts. Its package must have been imported."""
    return _KNOWN[name][1](sys.modules[name.partition(":")[0]], parts)


def _of_request(request: Any) -> dict[str, Any]:
    # Its headers and its content may contain credentials.
    return {"method": request.method, "url": str(request.url)}


def _request(httpx: Any, parts: dict[str, Any]) -> Any:
    return httpx.Request(parts["method"], parts["url"])


def _of_response(response: Any) -> dict[str, Any]:
    content = getattr(response, "_content", None)
    headers = [
        [name, value]
        for name, value in response.headers.multi_items()
        if name.lower() not in _UNRECORDED_HEADERS
    ]
    return {
        "status_code": response.status_code,
        "headers": headers,
        "content": None if content is None else bytes(content[:MAX_CONTENT_BYTES]),
        "request": getattr(response, "_request", None),
    }


def _response(httpx: Any, parts: dict[str, Any]) -> Any:
    headers = [tuple(pair) for pair in parts["headers"]]
    return httpx.Response(
        parts["status_code"], headers=headers, content=parts["content"], request=parts["request"]
    )


_KNOWN: dict[str, tuple[Callable[[Any], dict[str, Any]], Callable[[Any, dict[str, Any]], Any]]] = {
    "httpx:Request": (_of_request, _request),
    "httpx:Response": (_of_response, _response),
}
