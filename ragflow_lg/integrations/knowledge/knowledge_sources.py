"""The knowledge base specified in the settings, opened on first use, and what of it is stored as plain text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import load_named, require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.component.integration import load_store
from ragflow_lg.integrations.knowledge.knowledge_addresses import SERVERS, embedded_path, read_server_url, read_url_of
from ragflow_lg.integrations.knowledge.knowledge_settings import DatasetSections, KnowledgeSection
from ragflow_lg.integrations.knowledge.retriever_knowledge import RetrieverKnowledge, RetrieverSettings
from ragflow_lg.integrations.knowledge.tenant_knowledge import TenantKnowledge
from ragflow_lg.server.assembly.search_models import SearchModels, open_client
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetDirectory,
    DatasetEntry,
    DatasetSearch,
    DocumentEntry,
    Embedders,
    Knowledge,
    ListedChunk,
    Metadata,
    Rerankers,
    SearchResult,
)
from ragflow_lg.services.services import SupportsClose
from ragflow_lg.services.workers import Workers

if TYPE_CHECKING:
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.integrations.knowledge.embedded_knowledge import EmbeddedKnowledge
    from ragflow_lg.integrations.knowledge.knowledge_settings import RetrieverSection
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.http import HttpClient
    from ragflow_lg.services.services import Services

logger = logging.getLogger(__name__)


def retriever_datasets(
    settings: Settings, http: Callable[[], HttpClient], models: SearchModels
) -> Mapping[str, Knowledge]:
    """Return the datasets by id. Nothing is imported or opened before the first search."""
    datasets: dict[str, Knowledge] = {}
    for name, section in settings.section(KnowledgeSection).datasets.items():
        dataset = Dataset(section.id or name, name)
        opener = partial(_import, name, section) if section.retriever else partial(_index, name, section, http, models)
        retriever = RetrieverSettings(dataset, opener, section.metadata, secrets=settings.secrets)
        datasets[dataset.id] = RetrieverKnowledge(retriever, models.rerankers)
    return datasets


def _import(name: str, section: RetrieverSection) -> Any:
    """Import what the settings name, and call it if it is a function or a class."""
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


def _index(name: str, section: RetrieverSection, http: Callable[[], HttpClient], models: SearchModels) -> Any:
    address = read_url_of("elasticsearch", section.url, name).address
    return load_store("elasticsearch").open_retriever(name, section, address, http(), models.embedders)


class SettingsKnowledge:
    """The `ragflow_lg.services.knowledge.Knowledge` at ``[knowledge] url``. It is opened only if a Retrieval runs."""

    def __init__(self, settings: Settings, workers: Workers | None = None) -> None:
        """Initialize. ``workers`` read the answers of models."""
        self._settings = settings
        self._section = settings.section(KnowledgeSection)
        self.models = SearchModels(settings, workers)
        self._http: GuardedHttpClient | None = None
        self._opened: tuple[Mapping[str, Knowledge], Knowledge] | None = None
        self._embedded: EmbeddedKnowledge | None = None

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets by name or id; those with a store of their own first."""
        own, others = self._stores()
        known: dict[str, Dataset] = {}
        for knowledge in own.values():
            known.update(await knowledge.datasets(names_or_ids))
        rest = [name for name in names_or_ids if name not in known]
        return {**(await others.datasets(rest) if rest else {}), **known}

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return all datasets; none if the file of the embedded knowledge base does not exist yet."""
        url = self._section.url
        if not self._section.datasets and read_server_url(url) is None and not embedded_path(url).exists():
            return ()
        own, others = self._stores()
        stores = [store for store in (*own.values(), others) if isinstance(store, DatasetDirectory)]
        return [*chain.from_iterable([await store.list_datasets() for store in stores])]

    async def list_documents(self, dataset: Dataset, start: int, count: int) -> tuple[Sequence[DocumentEntry], int]:
        """Return some of the documents of a dataset of the embedded knowledge base, and the number of all."""
        return await self.embedded().list_documents(dataset, start, count)

    async def list_chunks(
        self, dataset: Dataset, document: str, start: int, count: int
    ) -> tuple[Sequence[ListedChunk], int]:
        """Return some chunks of a document in the embedded knowledge base, and the number of all."""
        return await self.embedded().list_chunks(dataset, document, start, count)

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search all stores at once. Their best chunks come first, then the second ones, and so on.

        Scores of different stores have different scales, so they are not compared. If one store fails, the search
        fails.
        """
        groups = self._by_store(search.datasets)
        if len(groups) == 1:
            return await groups[0][0].search(search)
        searches = [store.search(replace(search, datasets=chosen)) for store, chosen in groups]
        outcomes = await asyncio.gather(*searches, return_exceptions=True)
        results: list[SearchResult] = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            results.append(outcome)
        rounds = zip_longest(*(result.chunks for result in results))
        chunks = [chunk for chunk in chain.from_iterable(rounds) if chunk is not None]
        documents = sorted(chain.from_iterable(result.documents for result in results), key=lambda each: -each.chunks)
        return SearchResult(tuple(chunks[: search.top_n]), tuple(documents), sum(result.total for result in results))

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata for all documents."""
        merged: dict[str, dict[str, list[str]]] = {}
        for store, chosen in self._by_store(datasets):
            for key, values in (await store.metadata(chosen)).items():
                for value, ids in values.items():
                    merged.setdefault(key, {}).setdefault(value, []).extend(ids)
        return merged

    async def warm_up(self) -> None:
        """Log what stays plain when a server starts."""
        for result in await probe_plain_datasets(self._settings):
            logger.warning("%s%s. %s", result.what[0].upper(), result.what[1:], result.advice)

    async def copy_dataset(self, api: Any, remote: Any, embedding: str, report: Callable[[str], None]) -> None:
        """Copy a dataset of a RAGFlow server into the file."""
        from ragflow_lg.integrations.knowledge.dataset_copy import copy_dataset

        file, embedders = self.embedded().file, self.models.embedders
        await copy_dataset(api, remote, file, embedders, embedding=embedding, report=report)

    def for_tenant(self, settings: Settings, services: Services) -> TenantKnowledge:
        """Return the datasets that a tenant may search."""
        return TenantKnowledge(self, settings)

    async def aclose(self) -> None:
        """Close what was opened."""
        stores: list[object] = [*self._opened[0].values(), self._opened[1]] if self._opened is not None else []
        for each in (*stores, self.models, self._http):
            if isinstance(each, SupportsClose):
                await each.aclose()
        self._opened = self._embedded = self._http = None

    def embedded(self) -> EmbeddedKnowledge:
        """Return the embedded knowledge base, the only one that can be changed here.

        Raises:
            SettingsError: If the settings specify a server.
        """
        self._stores()
        if self._embedded is None:
            raise SettingsError("The datasets are stored on a server ([knowledge] url); change them there.")
        return self._embedded

    def _client(self) -> GuardedHttpClient:
        """Return the client for the servers in the settings."""
        if self._http is None:
            settings = self._settings
            urls = (read_server_url(self._section.url), read_server_url(self._section.ragflow_url))
            indices = [
                read_url_of("elasticsearch", each.url, name)
                for name, each in self._section.datasets.items()
                if each.url
            ]
            self._http = open_client(settings, *(url.host for url in (*urls, *indices) if url is not None))
        return self._http

    def _stores(self) -> tuple[Mapping[str, Knowledge], Knowledge]:
        """Return the datasets with a store of their own, by id, and the store of all others."""
        if self._opened is None:
            others = self._open(self._section.url)
            own = retriever_datasets(self._settings, self._client, self.models)
            self._opened = own, others
        return self._opened

    def _by_store(self, datasets: Sequence[Dataset]) -> list[tuple[Knowledge, tuple[Dataset, ...]]]:
        """Return the stores with their datasets, in the order in which the datasets name them."""
        own, others = self._stores()
        groups: dict[str, list[Dataset]] = {}
        for dataset in datasets:
            groups.setdefault(dataset.id if dataset.id in own else "", []).append(dataset)
        return [(own.get(key, others), tuple(chosen)) for key, chosen in groups.items()]

    def _open(self, url: str) -> Knowledge:
        if read_server_url(url) is not None:
            sections = self._settings.section(DatasetSections).items()
            datasets = [Dataset(id_, each.name or id_, each.embedding_model, each.tenant) for id_, each in sections]
            models = (self.models.embedders, self.models.rerankers)
            return open_knowledge_server(self._section, datasets, self._client(), *models)
        self._embedded = open_file(embedded_path(url), self.models.embedders, self.models.rerankers)
        return self._embedded


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
        raise SettingsError(f"[knowledge] url is not a server URL: use {SERVERS}.")
    if url.kind == "ragflow":
        return _ragflow(url.address, section.api_key.read(), http)
    api = read_url_of("ragflow", section.ragflow_url, "[knowledge] ragflow_url") if section.ragflow_url else None
    directory = _ragflow(api.address, section.ragflow_api_key.read(), http) if api is not None else None
    store = load_store(url.kind)
    return store.open_knowledge(section, url.address, datasets, http, embedders, rerankers, directory)


def _ragflow(address: str, api_key: str, http: HttpClient) -> Knowledge:
    from ragflow_lg.integrations.knowledge.ragflow_knowledge import RagflowApiKnowledge

    return RagflowApiKnowledge(address, api_key, http)


def open_file(path: Path, embedders: Embedders, rerankers: Rerankers | None = None) -> EmbeddedKnowledge:
    """Return the datasets in a file."""
    require("knowledge", "A local dataset")
    from ragflow_lg.integrations.knowledge.embedded_knowledge import EmbeddedKnowledge

    return EmbeddedKnowledge(path, embedders, rerankers)


async def probe_plain_datasets(settings: Settings) -> list[CheckResult]:
    """Return a note if the settings encrypt and the file with the datasets exists, which is not encrypted."""
    if not settings.encryption_keys:
        return []
    try:
        path = embedded_path(settings.section(KnowledgeSection).url).expanduser()
    except SettingsError:  # another server has the datasets
        return []
    if not path.exists():
        return []
    advice = "Their texts, words and vectors can be read by everybody who can read the file: encrypt the disk."
    return [CheckResult(True, f"the datasets in {str(path)!r} are not encrypted", advice)]


@asynccontextmanager
async def open_knowledge(settings: Settings, services: Services) -> AsyncGenerator[SettingsKnowledge]:
    """Yield the datasets, of which nothing is opened before the first search."""
    async with aclosing(SettingsKnowledge(settings, services.workers)) as knowledge:
        yield knowledge
