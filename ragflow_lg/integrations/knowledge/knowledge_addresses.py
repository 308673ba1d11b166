"""Where datasets are: addresses of servers, and of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from ragflow_lg.base.errors import SettingsError

SERVERS = "elasticsearch+https://HOST:9200 or ragflow+https://HOST"
KINDS = f"sqlite:///PATH, {SERVERS}"
"""Valid values for ``[knowledge] url``, for error messages."""


class ServerUrl(NamedTuple):
    """The parts of a URL. ``host`` has the same form as entries in the HTTP client's allow-list."""

    kind: Literal["elasticsearch", "ragflow"]
    address: str
    host: str


def read_server_url(url: str, setting: str = "[knowledge] url") -> ServerUrl | None:
    """Return the parts of a URL, or None if it is of no server. Raise SettingsError if its server has no host."""
    kind, plus, address = url.strip().partition("+")
    if not plus or kind not in ("elasticsearch", "ragflow"):
        return None
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if not host or parts.scheme not in ("http", "https"):
        raise SettingsError(f"{setting} begins with {kind}+ but does not contain a web address: use {SERVERS}.")
    default_port = {"http": 80, "https": 443}[parts.scheme]
    if kind == "elasticsearch" and port is None:
        address = f"{address.rstrip('/')}:{default_port}" if not parts.path.strip("/") else address
    name = f"[{host}]" if ":" in host else host
    return ServerUrl(
        "elasticsearch" if kind == "elasticsearch" else "ragflow", address, f"{name}:{port or default_port}"
    )


def read_url_of(kind: str, url: str, setting: str) -> ServerUrl:
    """Return the URL of a kind of server, or raise SettingsError."""
    if (found := read_server_url(url, setting)) is None or found.kind != kind:
        raise SettingsError(f"{setting} is not the URL of such a server: use {kind}+https://HOST.")
    return found


def embedded_path(url: str) -> Path:
    """Return the file that a URL refers to, or raise SettingsError, which explains how to write such a URL."""
    scheme, separator, rest = url.strip().partition("://")
    if scheme != "sqlite" or not separator:
        shown = url.rpartition("@")[2][:200]  # without anything that may be a password
        raise SettingsError(f"[knowledge] url is {shown!r}, which is not a knowledge base URL: use {KINDS}.")
    if not rest.startswith("/") or not rest.strip("/"):
        example = rest.strip("/") or "PATH"
        raise SettingsError(
            f"[knowledge] url is {url!r}: use three slashes, sqlite:///{example}, or four before an absolute path."
        )
    return Path(rest[1:]).expanduser()
