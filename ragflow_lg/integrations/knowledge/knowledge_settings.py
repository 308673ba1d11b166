"""The sections of the datasets that canvases search."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.checkpoints.store_url import find_passwords
from ragflow_lg.integrations.knowledge.knowledge_addresses import embedded_path, read_server_url, read_url_of
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import KeySection, Section

_FACTORY = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"


class UrlSection(KeySection):
    """A section with a server."""

    url: Annotated[str, Field(repr=False)] = ""

    def secrets(self) -> Iterable[str]:
        """Return the key, and the password in ``url``."""
        return self.api_key.read(), *find_passwords(self.url)


class RetrieverSection(UrlSection):
    """``[knowledge.datasets.NAME]``: a dataset that a LangChain retriever searches.

    It is either the retriever or vector store that a function returns, or an index of Elasticsearch that RAGFlow did
    not make.
    """

    id: str = ""
    """An id that canvases use as well, for example the one that the dataset has in RAGFlow. Default: NAME."""
    retriever: Annotated[str, Field(pattern=_FACTORY)] | None = None
    """``package.module:name``: a retriever, a vector store, or a function that returns one."""
    options: dict[str, bool | int | float | str | list[str]] = Field(
        default_factory=dict[str, bool | int | float | str | list[str]]
    )
    """Arguments of the function."""
    metadata: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    """Keys of the documents' metadata that models and citations get."""
    url: Annotated[str, Field(repr=False)] = ""
    """``elasticsearch+https://HOST:9200``: the server with the index."""
    index: str = ""
    embedding_model: str = ""
    """The ID in ``[embeddings."ID"]`` of the model that created the vectors."""
    text_field: str = "text"
    vector_field: str = "vector"
    strategy: Literal["vector", "keywords", "hybrid"] = "vector"

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.retriever is None) == (not self.url):
            raise ValueError("set either retriever, or url and index")
        if self.url and not self.index:
            raise ValueError("url needs index")
        return self


class KnowledgeSection(UrlSection):
    """``[knowledge]``: where to find the datasets that Retrieval searches."""

    url: Annotated[str, Field(repr=False)] = "sqlite:///ragflow-lg-knowledge.db"
    """``sqlite:///PATH`` is the embedded knowledge base, ``elasticsearch+https://HOST:9200`` the index of a RAGFlow,
    ``ragflow+https://HOST`` its API. ``api_key`` is for the last two."""
    tokenizer: Literal["es-portable", "ragflow-ranking"] = "es-portable"
    """How questions to Elasticsearch are tokenized: approximately, or exactly as by RAGFlow, which must be installed.
    """
    dictionaries: Path | None = None
    """Folder with RAGFlow's ``ner.json`` and ``synonym.json``, for Elasticsearch."""
    ragflow_url: str = ""
    """``ragflow+https://HOST``: where to look up datasets missing from ``[datasets]``, for Elasticsearch."""
    ragflow_api_key: Secret = Secret()
    datasets: dict[str, RetrieverSection] = Field(default_factory=dict[str, RetrieverSection])
    """Datasets that are not at ``url``, by name."""
    embedding_model: str = ""
    """For new datasets. Default: the only one, ``wordllama`` if it is installed, or ``keywords``."""

    def secrets(self) -> Iterable[str]:
        """Return the keys, and the passwords in addresses."""
        datasets = (secret for dataset in self.datasets.values() for secret in dataset.secrets())
        return *super().secrets(), self.ragflow_api_key.read(), *datasets

    def check(self, name: str) -> None:
        """Raise SettingsError if an address cannot be used, or if two datasets have the same name or id."""
        if read_server_url(self.url) is None:
            embedded_path(self.url)
        if self.ragflow_url:
            read_url_of("ragflow", self.ragflow_url, "[knowledge] ragflow_url")
        names: set[str] = set()
        for name, each in self.datasets.items():
            if names & {each.id or name, name}:
                raise SettingsError(f"The dataset {name!r} in [knowledge.datasets] has the name or id of another one.")
            names |= {each.id or name, name}
            if each.url:
                read_url_of("elasticsearch", each.url, f"[knowledge.datasets.{name}] url")


class DatasetSection(Section):
    """``[datasets."ID"]``: a dataset that RAGFlow stores in Elasticsearch."""

    name: str = ""
    embedding_model: str
    """RAGFlow's ``embd_id``; its endpoint is under ``[embeddings]``."""
    tenant: str
    """Its owner's id: the index is ``ragflow_TENANT``."""


DatasetSections = dict[str, DatasetSection]
