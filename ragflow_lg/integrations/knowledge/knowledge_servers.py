"""A RAGFlow server's knowledge, reached by the URL of its Elasticsearch or its API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import urlsplit

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.component.integration import load_store
from ragflow_lg.services.knowledge import Dataset, Embedders, Knowledge, Rerankers

if TYPE_CHECKING:
    from ragflow_lg.integrations.knowledge.knowledge_settings import KnowledgeSection
    from ragflow_lg.services.http import HttpClient

KINDS = "elasticsearch+https://HOST:9200 or ragflow+https://HOST"
"""The valid URLs, for error messages."""


class ServerUrl(NamedTuple):
    """The parts of a URL. ``host`` has the same form as entries in the HTTP client's allow-list."""

    kind: Literal["elasticsearch", "ragflow"]
    address: str
    host: str


def read_server_url(url: str, setting: str = "[knowledge] url") -> ServerUrl | None:
    """Parse a URL. Return None if it is not a server URL.

    Raises:
        SettingsError: If it has a server scheme but no host.
    """
    kind, plus, address = url.strip().partition("+")
    if not plus or kind not in ("elasticsearch", "ragflow"):
        return None
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if not host or parts.scheme not in ("http", "https"):
        raise SettingsError(f"{setting} begins with {kind}+ but does not contain a web address: use {KINDS}.")
    default_port = {"http": 80, "https": 443}[parts.scheme]
    if kind == "elasticsearch" and port is None:
        address = f"{address.rstrip('/')}:{default_port}" if not parts.path.strip("/") else address
    name = f"[{host}]" if ":" in host else host
    return ServerUrl(
        "elasticsearch" if kind == "elasticsearch" else "ragflow", address, f"{name}:{port or default_port}"
    )


def open_knowledge_server(
    section: KnowledgeSection, datasets: Sequence[Dataset], http: HttpClient, embedders: Embedders, rerankers: Rerankers
) -> Knowledge:
    """Open a server's knowledge. No request is sent before the first search.

    ``datasets`` are those that Elasticsearch does not know by name. Others are requested from the RAGFlow API at
    ``ragflow_url``.

    Raises:
        SettingsError: If the URL, the tokenizer or the dictionaries cannot be used.
    """
    url = read_server_url(section.url)
    if url is None:
        raise SettingsError(f"[knowledge] url is not a server URL: use {KINDS}.")
    if url.kind == "ragflow":
        return _ragflow(url.address, section.api_key.read(), http)
    api = read_server_url(section.ragflow_url, "[knowledge] ragflow_url")
    if section.ragflow_url and (api is None or api.kind != "ragflow"):
        raise SettingsError("[knowledge] ragflow_url is not a RAGFlow URL: use ragflow+https://HOST.")
    directory = _ragflow(api.address, section.ragflow_api_key.read(), http) if api is not None else None
    store = load_store(url.kind)
    return store.open_knowledge(section, url.address, datasets, http, embedders, rerankers, directory)


def _ragflow(address: str, api_key: str, http: HttpClient) -> Knowledge:
    from ragflow_lg.integrations.knowledge.ragflow_knowledge import RagflowApiKnowledge

    return RagflowApiKnowledge(address, api_key, http)
