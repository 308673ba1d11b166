"""Opens datasets in Elasticsearch, as the settings or a program describe them. No request is sent before a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.extras import require
from ragflow_lg.integrations.elasticsearch.connection import Connection, ElasticsearchSettings, SettingNames
from ragflow_lg.integrations.elasticsearch.elasticsearch_knowledge import ElasticsearchKnowledge
from ragflow_lg.integrations.elasticsearch.term_weights import Dictionaries, read_dictionaries
from ragflow_lg.integrations.elasticsearch.tokenizers import Tokenizer, load_infinity_tokenizer
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import Dataset, Embedders, Knowledge, Rerankers

if TYPE_CHECKING:
    from ragflow_lg.integrations.elasticsearch.store_retriever import StoreRetriever

_PROGRAM = SettingNames("url", "tenant", "embeddings, which must be the model that created the vectors in RAGFlow,")


def open_knowledge(
    section: Any,
    address: str,
    datasets: Sequence[Dataset],
    http: HttpClient,
    embedders: Embedders,
    rerankers: Rerankers,
    directory: Knowledge | None,
) -> ElasticsearchKnowledge:
    """Open RAGFlow's index. ``section`` is ``[knowledge]``, and ``directory`` knows the datasets that are not listed.

    Raises:
        SettingsError: if the tokenizer or the dictionaries cannot be used.
    """
    require("elasticsearch", "Elasticsearch ([knowledge] url)")
    words = read_dictionaries(section.dictionaries) if section.dictionaries is not None else Dictionaries()
    return ElasticsearchKnowledge(
        Connection(ElasticsearchSettings(address, section.api_key.read()), http),
        datasets,
        embedders,
        rerankers=rerankers,
        directory=directory,
        tokenizer=load_infinity_tokenizer() if section.tokenizer == "ragflow-ranking" else Tokenizer(),
        names=words.names,
        synonyms=words.synonyms,
    )


def open_retriever(name: str, section: Any, address: str, http: HttpClient, embedders: Embedders) -> StoreRetriever:
    """Return a retriever of an index that RAGFlow did not make. ``section`` is ``[knowledge.datasets.NAME]``."""
    require("elasticsearch", f"The dataset {name!r} in Elasticsearch")
    from ragflow_lg.integrations.elasticsearch.store_retriever import open_index

    server = ElasticsearchSettings(address, section.api_key.read())
    embedder = None if section.strategy == "keywords" else embedders.embedder(section.embedding_model)
    fields = section.model_dump(include={"text_field", "vector_field", "strategy"})
    return open_index(server, section.index, http, embedder, **fields)


def open_tenant(
    url: str, api_key: str, timeout_s: float, datasets: Sequence[Dataset], http: HttpClient, embedders: Embedders
) -> ElasticsearchKnowledge:
    """Open datasets in RAGFlow's index for a program, whose arguments errors name."""
    require("elasticsearch", "Elasticsearch")
    connection = Connection(ElasticsearchSettings(url, api_key, timeout_s), http, _PROGRAM)
    return ElasticsearchKnowledge(connection, datasets, embedders)
