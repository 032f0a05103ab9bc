"""The errors of a client: those of the server keep their code, and those of the connection have one
of their own.
"""

from __future__ import annotations

import json
from typing import Any

from tiffany import _core
from tiffany.errors import (
    ClientSettingsError,
    LostDaemonError,
    OldDaemonError,
    TiffanyError,
    TlsError,
    of_code,
)

_NO_PATH = ("TFY0162", "TFY0163")
"""What a daemon answers that lacks a route."""


def recorded(error: Any) -> BaseException:
    """Returns the exception that a recorded error, as JSON, stands for."""
    exception: BaseException = _core._exception(json.dumps(error))
    return exception


def of_problem(status: int, body: bytes, what: str) -> TiffanyError:
    """Returns the error of an answer that is `application/problem+json`."""
    try:
        problem = json.loads(body)
        code, title, step = problem["code"], problem["title"], problem.get("next", "")
    except (ValueError, KeyError, TypeError):
        return not_a_daemon(f"it answered {what} with the status {status} and without a code")
    if code in _NO_PATH:
        return old_daemon(what)
    return of_code(code)(f"{title} [{code}]; {step}" if step else f"{title} [{code}]")


def old_daemon(what: str) -> OldDaemonError:
    """Returns the error for a daemon that lacks a route."""
    return OldDaemonError(
        f"the daemon does not know {what} [TFY0302]; "
        "upgrade the daemon to the version of this client (`client.status().version` says which it has)"
    )


def not_a_daemon(why: str) -> OldDaemonError:
    """Returns the error for an answer that is not Tiffany's."""
    return OldDaemonError(
        f"what answers there is not a Tiffany daemon that this client understands: {why} [TFY0302]; "
        "check the URL, its scheme (http or https) and what stands between the two"
    )


def lost(where: str, why: object, seconds: float, begun: bool) -> LostDaemonError:
    """Returns the error for a process that could not be reached within the time for retries."""
    tried = f" for {seconds:g} s" if seconds else ""
    unsure = (
        "; the request was sent, so what it was to change may have happened: look before you repeat it"
        if begun
        else ""
    )
    return LostDaemonError(
        f"{where} could not be reached{tried}: {why or 'no answer'}{unsure} [TFY0300]; "
        "check that the daemon runs and can be reached from here"
    )


def tls(where: str, error: Exception) -> TlsError:
    """Returns the error for a connection that TLS refused."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        step = "give the certificate of the authority that signed the daemon's as `ca=`"
    elif "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER" in text:
        step = "the daemon has no TLS there: use `http://`, or turn TLS on in its configuration"
    elif "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text or "ALERT" in text:
        step = "the daemon wants a certificate of its clients: give it as `cert=`"
    else:
        step = "check the certificates of both sides"
    return TlsError(f"no TLS connection with {where}: {text} [TFY0301]; {step}")


def settings(message: str, step: str) -> ClientSettingsError:
    """Returns the error for a client that cannot be made like this."""
    return ClientSettingsError(f"{message} [TFY0303]; {step}")


def is_tls(error: BaseException) -> bool:
    """Whether an error is one of TLS, without a need for its module."""
    return any(cls.__module__ == "ssl" for cls in type(error).__mro__)
