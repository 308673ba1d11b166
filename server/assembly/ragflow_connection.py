"""The server of a pulled folder: its address, the variable with the key, and the user's consent to use both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.server.settings.trusted_folders import is_trusted, trust

if TYPE_CHECKING:
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.server.settings import Settings

T = TypeVar("T")

_VARIABLE = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]{1,1000}")


class Source(Struct, frozen=True):
    """A server and the environment variable with its API key."""

    url: str
    key_env: str
    is_private: bool = False
    """Whether the server may have an address that is not on the public internet."""

    @property
    def mark(self) -> str:
        """The text by which the user's consent is remembered."""
        return f"{self.key_env} {self.url}{' private' if self.is_private else ''}"


def find_source(folder: Path, known: Source | None, url: str, key_env: str, *, is_private: bool) -> Source:
    """Return the server that a command names, or else the one of the folder.

    ``known`` is what the folder says, which may come from anybody. It decides which server receives a key only if the
    user has named both before.

    Raises:
        SettingsError: if a part is missing or invalid, or the folder belongs to another server.
    """
    if url and known is not None and read_url(url) != known.url:
        raise SettingsError(f"The folder was pulled from {known.url}. Use another folder for {read_url(url)}.")
    if url and key_env:
        return Source(read_url(url), _read_variable(key_env), is_private)
    if known is None:
        raise SettingsError("Name the server with --from URL and the variable with its API key with --key-env NAME.")
    agreed = _require_consent(folder, Source(read_url(known.url), _read_variable(known.key_env), is_private))
    if url or key_env:
        return Source(read_url(url or known.url), _read_variable(key_env or known.key_env), is_private)
    return agreed


def _require_consent(folder: Path, source: Source) -> Source:
    """Return the source as the user has agreed to it."""
    private = Source(source.url, source.key_env, is_private=True)
    for agreed in (private, source):
        if is_trusted("ragflow", folder, agreed.mark):
            return agreed
    raise SettingsError(
        f"{str(folder)!r} says that its server is {source.url} and the key is in {source.key_env}, but it was not "
        f"pulled by you. If that is right, add --from {source.url} --key-env {source.key_env}."
    )


def remember_source(folder: Path, source: Source) -> None:
    """Remember that the folder's server may receive the key.

    Raises:
        SettingsError: if that cannot be stored.
    """
    if not is_trusted("ragflow", folder, source.mark):
        trust("ragflow", folder, source.mark)


def read_url(text: str) -> str:
    """Return a server's address without path.

    Raises:
        SettingsError: if it is not one, or contains a password.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError("The server's address is like https://ragflow.example.com or http://localhost:9380.")
    if "@" in parts.netloc or parts.query:
        raise SettingsError("The server's address contains a password or a query. Put the API key into a variable.")
    path = parts.path.rstrip("/").removesuffix("/api/v1")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{path}"


def _read_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise SettingsError("--key-env takes the name of an environment variable, not the key itself.")
    return name


def read_key(source: Source) -> str:
    """Return the API key.

    Raises:
        SettingsError: if the variable is not set, or is no key.
    """
    key = os.environ.get(source.key_env, "").strip()
    if not key:
        raise SettingsError(
            f"The environment variable {source.key_env} with the API key of {source.url} is not set. "
            "RAGFlow shows keys under its avatar, API."
        )
    if not _KEY.fullmatch(key):
        raise SettingsError(f"The environment variable {source.key_env} does not contain an API key.")
    return key


@contextmanager
def explain_refusal() -> Generator[None]:
    """Add to the refusal of a private address how the command allows it.

    Raises:
        ServiceError: the error of the block.
    """
    try:
        yield
    except ServiceError as error:
        if "not on the public internet" not in str(error):
            raise
        raise ServiceError(f"{error} If the server is yours, add --allow-private.") from error


def load_folder_settings(folder: Path, file: Path | None) -> Settings:
    """Return the settings of a folder, and read the ``.env`` beside them; ``file`` replaces the settings.

    Raises:
        SettingsError: if they are invalid or not trusted.
    """
    from ragflow_lg.server.settings import load_settings

    own = file.resolve() if file else None
    with contextlib.chdir(folder if folder.is_dir() else Path.cwd()):
        return load_settings(own)


def open_http(settings: Settings, source: Source) -> GuardedHttpClient:
    """Return the client for requests to the server. Private addresses are refused unless they are allowed."""
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.http.http_settings import HttpSettings
    from ragflow_lg.adapters.model_endpoint import endpoint_host
    from ragflow_lg.adapters.ragflow_api.api_client import MAX_BODY_BYTES

    http = settings.http_settings
    allow = (*http.allow, endpoint_host(source.url)) if source.is_private else http.allow
    return GuardedHttpClient(HttpSettings(allow, http.timeout_s, MAX_BODY_BYTES))


def with_api(
    settings: Settings, source: Source, key: str, work: Callable[[RagflowApi], Awaitable[T]], *, timeout_s: float = 60.0
) -> T:
    """Connect to the server, run ``work`` with it, and return the result. ``timeout_s`` limits each request.

    Raises:
        ServiceError: if the server fails, or its address is refused.
    """
    from ragflow_lg.adapters.ragflow_api.api_client import ApiAddress, RagflowApi

    async def run() -> T:
        async with contextlib.aclosing(open_http(settings, source)) as http:
            return await work(RagflowApi(ApiAddress(source.url, key, timeout_s), http))

    with explain_refusal():
        return asyncio.run(run())
