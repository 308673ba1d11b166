"""The datasets in ``[knowledge.datasets]``, which LangChain's retrievers search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ragflow_lg.adapters.knowledge.rerankers import RerankedKnowledge
from ragflow_lg.adapters.knowledge.retriever_knowledge import RetrieverKnowledge, RetrieverSettings
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import load_named, require
from ragflow_lg.server.assembly.knowledge_servers import ServerUrl, read_server_url
from ragflow_lg.services.knowledge import Dataset, Embedders, Knowledge, Rerankers

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.server.settings.knowledge_sections import RetrieverSection
    from ragflow_lg.services.http import HttpClient


def retriever_datasets(
    settings: Settings,
    http: Callable[[], HttpClient],
    embedders: Callable[[], Embedders],
    rerankers: Callable[[], Rerankers],
) -> Mapping[str, Knowledge]:
    """Return the datasets by id. Nothing is imported or opened before the first search.

    Raises:
        SettingsError: if two of them have the same name or id.
    """
    datasets: dict[str, Knowledge] = {}
    names: set[str] = set()
    for name, section in settings.knowledge.datasets.items():
        dataset = Dataset(section.id or name, name)
        if names & {dataset.id, name}:
            raise SettingsError(f"The dataset {name!r} in [knowledge.datasets] has a name or id that another one has.")
        names |= {dataset.id, name}
        opener = (
            partial(_import, name, section) if section.retriever else partial(_index, name, section, http, embedders)
        )
        retriever = RetrieverSettings(dataset, opener, section.metadata, section.timeout_s, settings.secrets)
        datasets[dataset.id] = RerankedKnowledge(RetrieverKnowledge(retriever), rerankers())
    return datasets


def index_hosts(settings: Settings) -> list[str]:
    """Return the servers of the indices in the form used by the guarded client's allow-list."""
    return [_server(name, section).host for name, section in settings.knowledge.datasets.items() if section.url]


def _import(name: str, section: RetrieverSection) -> Any:
    """Import what the settings name, and call it if it is a function or a class.

    Raises:
        SettingsError: if it cannot be imported or raises an exception.
    """
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore

    setting = f"[knowledge.datasets.{name}] retriever"
    found = load_named(section.retriever or "", setting)
    if isinstance(found, BaseRetriever | VectorStore):
        if section.options:
            raise SettingsError(f"{setting} names no function, so it takes no options.")
        return found
    if not callable(found):
        raise SettingsError(f"{setting} names a {type(found).__name__}, not a function that returns a retriever.")
    try:
        return found(**section.options)
    except Exception as error:  # third-party code may raise anything
        raise SettingsError(f"{setting} cannot be opened: {type(error).__name__}: {error}.") from error


def _index(
    name: str, section: RetrieverSection, http: Callable[[], HttpClient], embedders: Callable[[], Embedders]
) -> Any:
    require("elasticsearch", f"The dataset {name!r} in Elasticsearch")
    from ragflow_lg.adapters.elasticsearch.checking_client import ElasticsearchSettings
    from ragflow_lg.adapters.elasticsearch.store_retriever import IndexSettings, open_index

    server = ElasticsearchSettings(_server(name, section).address, section.key_text(), section.timeout_s)
    settings = IndexSettings(server, section.index, section.text_field, section.vector_field, section.strategy)
    embedder = None if section.strategy == "keywords" else embedders().embedder(section.embedding_model)
    return open_index(settings, http(), embedder)


def _server(name: str, section: RetrieverSection) -> ServerUrl:
    setting = f"[knowledge.datasets.{name}] url"
    url = read_server_url(section.url, setting)
    if url is None or url.kind != "elasticsearch":
        raise SettingsError(f"{setting} is not a server with indices: use elasticsearch+https://HOST:9200.")
    return url
