"""The sections of the datasets that canvases search."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.checkpoints.store_url import find_passwords
from ragflow_lg.integrations.knowledge.knowledge_addresses import embedded_path, read_server_url, read_url_of
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import KeySection, Section

_FACTORY = r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"


class RetrieverSection(Section):
    """``[knowledge.datasets.NAME]``: a dataset that a LangChain retriever or vector store searches."""

    id: str = ""
    """An id that canvases use as well, for example the one that the dataset has in RAGFlow. Default: NAME."""
    retriever: Annotated[str, Field(pattern=_FACTORY)]
    """``package.module:name``: a retriever, a vector store, or a function that returns one."""
    options: dict[str, bool | int | float | str | list[str]] = Field(
        default_factory=dict[str, bool | int | float | str | list[str]]
    )
    """Arguments of the function."""
    metadata: Annotated[tuple[str, ...], Field(max_length=32)] = ()
    """Keys of the documents' metadata that models and citations get."""


class KnowledgeSection(KeySection):
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
    """For new datasets. Default: the only one, or the hashing stand-in."""

    def secrets(self) -> Iterable[str]:
        """Return the keys, and the password in ``url``."""
        return self.api_key.read(), *find_passwords(self.url), self.ragflow_api_key.read()

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


class DatasetSection(Section):
    """``[datasets."ID"]``: a dataset that RAGFlow stores in Elasticsearch."""

    name: str = ""
    embedding_model: str
    """RAGFlow's ``embd_id``; its endpoint is under ``[embeddings]``."""
    tenant: str
    """Its owner's id: the index is ``ragflow_TENANT``."""


DatasetSections = dict[str, DatasetSection]
