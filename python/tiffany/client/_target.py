"""Whom a client is for: a directory, a URL, and what belongs to a URL (token, certificates)."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from tiffany import _arguments
from tiffany.client import _failures
from tiffany.client._io import Address
from tiffany.client._peer import HttpPeer, SocketPeer

SOCKET = "control.sock"
Path = str | os.PathLike[str]


def is_url(target: object) -> bool:
    """Whether this is the URL of a daemon, and not a directory.

    >>> is_url("https://host:8787"), is_url("http"), is_url("wal")
    (True, False, False)
    """
    return isinstance(target, str) and "://" in target


def socket_peer(directory: Path, retry: float, *, control: bool) -> SocketPeer:
    """Returns the process that owns a directory."""
    where = os.path.abspath(os.fsdecode(_arguments.path("wal", directory)))
    address = Address(os.path.join(where, SOCKET))
    return SocketPeer(address, f"the process that owns {where}", retry, control)


def http_peer(
    url: str,
    *,
    token: str | None,
    token_file: Path | None,
    ca: Path | None,
    cert: Path | tuple[Path, Path] | None,
    insecure: bool,
    retry: float,
) -> HttpPeer:
    """Returns the daemon of a URL."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _failures.settings(
            f"{url!r} is not a URL: {error}", "write it as https://host:8787"
        ) from None
    if parts.scheme not in ("http", "https") or not host:
        raise _failures.settings(
            f"{url!r} is not the URL of a daemon", "write it as https://host:8787"
        )
    if parts.path not in ("", "/") or parts.query or parts.username:
        raise _failures.settings(
            f"{url!r} has more than a scheme, a host and a port",
            "give the address of the daemon alone, and the token as `token=`",
        )
    is_secure = parts.scheme == "https"
    if not is_secure and not insecure and not _is_loopback(host):
        raise _failures.settings(
            f"{url!r} would send the token and all values unencrypted to another machine",
            "use https, or say `insecure=True`",
        )
    if not is_secure and (ca is not None or cert is not None):
        raise _failures.settings("`ca` and `cert` are for https", "use https, or leave them out")
    port = port or (443 if is_secure else 80)
    address = Address(host, port, _tls(ca, cert) if is_secure else None)
    name = f"[{host}]" if ":" in host else host
    return HttpPeer(
        address, f"the daemon at {url}", f"{name}:{port}", _token(token, token_file), retry
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(token: str | None, file: Path | None) -> Callable[[], str | None]:
    """Returns what gives the token. A file is read each time, so that it can be replaced."""
    if token is not None and file is not None:
        raise _failures.settings("both `token` and `token_file` were given", "give one of them")
    if token is None and file is None:
        token = _given("TIFFANY_TOKEN")
        file = _given("TIFFANY_TOKEN_FILE") if token is None else None
    if file is None:
        given = _checked(token)
        return lambda: given
    place = file

    def read() -> str | None:
        try:
            with open(place, encoding="utf-8") as opened:
                return _checked(opened.read().strip())
        except (OSError, UnicodeDecodeError) as error:
            raise _failures.settings(
                f"the token file cannot be read: {error}", "give another file"
            ) from None

    read()
    return read


def _checked(token: str | None) -> str | None:
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise _failures.settings(
            "the token has characters that no token has",
            "give it as `tiffany token add` printed it",
        )
    return token or None


def _given(name: str) -> str | None:
    return os.environ.get(name) or None


def _tls(ca: Path | None, cert: Path | tuple[Path, Path] | None) -> Any:
    # Clients without TLS do not pay for it.
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca)
        if isinstance(cert, tuple):
            context.load_cert_chain(*cert)
        elif cert is not None:
            context.load_cert_chain(cert)
    except (OSError, ssl.SSLError) as error:
        raise _failures.settings(
            f"the certificates cannot be used: {error}",
            "`ca` is a file of certificates; `cert` is one with a certificate and its key, or (certificate, key)",
        ) from error
    return context


def seconds(name: str, given: float | timedelta) -> float:
    """Checks a time."""
    return _arguments.seconds(f"`{name}`", given)
