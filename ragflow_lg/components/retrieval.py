"""Retrieval: searches datasets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, field_validator, model_validator

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, SettingsError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.spec import ComponentParams, OneOrMany, TemplateOrValue, ToolResult
from ragflow_lg.component.tool import tool
from ragflow_lg.dsl.variable_references import Reference, parse_reference
from ragflow_lg.models.metadata_filter import FILTER_OPERATORS, FilterCondition, filter_documents, metadata_operator
from ragflow_lg.models.search_prompts import choose_conditions, translate_question
from ragflow_lg.services.chunks import readable_chunks, readable_documents
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge, Metadata
from ragflow_lg.services.references import knowledge_text

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["retrieval"]

logger = logging.getLogger(__name__)

MAX_QUESTION_CHARS = 10_000
_USER_LABEL = re.compile(r"^user\s*[:：]\s*", re.IGNORECASE)
MAX_CONDITIONS = 1_000
_METHODS = ("manual", "auto", "semi_auto")


def _dataset(value: Any) -> Any:
    """Read an entry: with ``@``, or between braces, it is a reference, whose last part may be any name."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        if isinstance(value, Reference):
            return value
        raise ValueError("should be the id or name of a dataset, or a reference")
    text = value.strip()
    inner = text.strip("{} \t\r\n")
    if "@" not in text and not text.startswith("{"):
        return text
    if reference := parse_reference(text):
        return reference
    node, found, key = inner.partition("@")
    if found and node and key:
        return Reference("output", inner, key, node)
    raise ValueError(f"{value!r} is no reference; write component@output")


DatasetEntry = Annotated[
    Any,
    BeforeValidator(_dataset),
    PlainSerializer(str, when_used="json"),
    Field(json_schema_extra={"type": "string"}),
]


def _query_text(value: Any) -> Any:
    if value is None or value in ([], {}):
        return ""
    return value if isinstance(value, str) else to_text(value)


class MetadataCondition(BaseModel):
    """One condition on the metadata of documents."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: str = ""
    op: str = Field("=", examples=list(FILTER_OPERATORS))
    value: TemplateOrValue = ""
    """Text, which may hold references, or any other value."""

    @field_validator("op")
    @classmethod
    def _known(cls, value: str) -> str:
        if not value.strip():
            return "="
        if (operator := metadata_operator(value)) is None:
            raise ValueError(f"{value!r} is no operator; write one of {', '.join(FILTER_OPERATORS)}")
        return operator


class ChosenField(BaseModel):
    """A field of metadata on which the model may choose a condition, with the operator it has to have, if any."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: str
    op: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, data: Any) -> Any:
        return {"key": data} if isinstance(data, str) else data

    @field_validator("op", mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        return metadata_operator(value) or "" if isinstance(value, str) else ""


class MetadataFilter(BaseModel):
    """Which documents are searched, by their metadata."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    method: str | None = Field("", examples=["", *_METHODS])
    """``manual`` conditions; ``auto``: the default model chooses some, in ``semi_auto`` for certain fields only."""
    logic: str | None = Field("and", examples=["and", "or"])
    """Whether all manual conditions have to hold, or one of them."""
    manual: OneOrMany[MetadataCondition] = Field(default_factory=list[MetadataCondition])
    semi_auto: OneOrMany[ChosenField] = Field(default_factory=list[ChosenField])

    @field_validator("manual")
    @classmethod
    def _not_too_many(cls, value: list[MetadataCondition]) -> list[MetadataCondition]:
        if len(value) > MAX_CONDITIONS:
            raise ValueError(f"has {len(value):,} conditions; at most {MAX_CONDITIONS:,} can be compared")
        return value


def _all_documents() -> MetadataFilter:
    return MetadataFilter.model_validate({})


class Params(ComponentParams):
    """Parameters of Retrieval."""

    dataset_ids: OneOrMany[DatasetEntry] = Field(default_factory=list[Any])
    """Datasets by id or name, or references to such (``begin@dataset``); their values may be lists."""
    kb_ids: OneOrMany[DatasetEntry] = Field(default_factory=list[Any])
    """The older name of ``dataset_ids``; counts where that is empty."""
    memory_ids: OneOrMany[str] = Field(default_factory=list[str])
    retrieval_from: str | None = Field("", examples=["dataset", "memory"])
    user_id: TemplateOrValue = None
    similarity_threshold: float = Field(0.2, ge=0, le=1)
    """Chunks of a lower score are left out."""
    keywords_similarity_weight: float = Field(0.5, ge=0, le=1)
    """How much the words count; the rest is what the vectors count."""
    top_n: int = Field(8, gt=0, le=10_000)
    """How many chunks are given at most."""
    top_k: int = Field(1024, gt=0, le=1_000_000)
    """How many chunks the search by vectors considers."""
    rerank_id: str | None = ""
    """A model that orders what was found."""
    empty_response: str | None = ""
    """What the node gives where nothing is found or asked."""
    use_kg: bool = False
    """Whether a knowledge graph is asked too, where there is one."""
    cross_languages: OneOrMany[str] = Field(default_factory=list[str])
    """Languages into which the default model translates the question."""
    toc_enhance: bool = False
    """Whether the table of contents of the best document counts."""
    meta_data_filter: MetadataFilter = Field(default_factory=_all_documents)
    kb_vars: Any = None
    """Not read, as in RAGFlow."""
    function_name: str | None = ""
    """What the function is called that an agent sees."""

    @field_validator("meta_data_filter", mode="before")
    @classmethod
    def _no_filter(cls, value: Any) -> Any:
        return {} if value in (None, "", []) else value

    @property
    def entries(self) -> Sequence[str | Reference]:
        """The datasets that are named."""
        named = [entry for entry in self.dataset_ids if entry != ""]
        return named or [entry for entry in self.kb_ids if entry != ""]

    @property
    def source(self) -> str:
        """What is searched: ``dataset``, ``memory``, or nothing."""
        if self.retrieval_from in ("dataset", "memory"):
            return self.retrieval_from
        return "dataset" if self.entries else "memory" if any(self.memory_ids) else ""


class Arguments(BaseModel):
    """What is looked for."""

    query: Annotated[str, BeforeValidator(_query_text)] = Field(
        "", description="What to look for, as a full question or the words that matter most in it."
    )


def _nothing(params: Params) -> ToolResult:
    return ToolResult(None, {"formalized_content": params.empty_response or ""})


def _named(params: Params) -> str:
    return params.function_name or ""


def _lint(params: Params) -> Iterable[Finding]:
    if params.source == "memory":
        message = "Memories are not searched in this version: the node will fail."
        yield Finding("params-unsupported", "warning", ("memory_ids",), message)
    elif not params.entries:
        message = "No dataset is named: nothing is searched, and the node gives its empty_response."
        hint = "Name datasets in dataset_ids, by id or name."
        yield Finding("params-unsupported", "warning", ("dataset_ids",), message, hint)
    given = params.meta_data_filter
    if given.method and given.method not in (*_METHODS, "disabled", "none"):
        message = f"There is no method {given.method!r} of filters: all documents are searched."
        yield Finding("params-unsupported", "warning", ("meta_data_filter", "method"), message)


@tool(
    "Retrieval",
    function="search_my_dateset",
    params=Params,
    arguments=Arguments,
    blank=_nothing,
    read_name=_named,
    lint=_lint,
    timeout_s=12.0,
    description="Search the datasets of this deployment. Results come with their number, title and content.",
    source="agent/tools/retrieval.py",
    aliases=("SearchMyDataset", "search_my_dataset", "search_my_dateset"),
)
async def retrieval(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Find the datasets, ask in other words where the canvas wants it, search once."""
    if params.source == "memory":
        raise ComponentError("Memories are not searched in this version; name datasets in dataset_ids.")
    if not params.entries:
        return _nothing(params)
    knowledge = _knowledge(ctx)
    datasets = await _datasets(ctx, knowledge, params.entries)
    question = arguments.query[:MAX_QUESTION_CHARS]
    searched = await _documents(ctx, knowledge, datasets, params.meta_data_filter, question)
    if languages := [language for language in params.cross_languages if language.strip()]:
        question = await translate_question(ctx, question, languages)
    found = await knowledge.search(
        DatasetSearch(
            question=_USER_LABEL.sub("", question),
            datasets=datasets,
            document_ids=searched,
            top_n=params.top_n,
            top_k=params.top_k,
            similarity_threshold=params.similarity_threshold,
            keywords_similarity_weight=params.keywords_similarity_weight,
            rerank_id=params.rerank_id or "",
            toc_enhance=params.toc_enhance,
            use_kg=params.use_kg,
        )
    )
    chunks, text = await ctx.run_in_thread(_rendered, found.chunks)
    if not chunks:
        return _nothing(params)
    documents = readable_documents(found.documents)
    return ToolResult(text, {"formalized_content": text, "json": chunks}, chunks, documents=documents)


def _rendered(rows: Sequence[Any]) -> tuple[list[dict[str, JsonValue]], str]:
    """Read what a place gave and show it to a model; for 10,000 chunks that takes a while."""
    chunks = readable_chunks(rows)
    return chunks, knowledge_text(chunks)


def _knowledge(ctx: RunContext) -> Knowledge:
    knowledge = ctx.services.knowledge
    if knowledge is None:
        raise SettingsError(
            "Retrieval has no knowledge to search: set url in [knowledge] of the settings, to "
            "sqlite:///PATH for a file of your own, or to the address of a RAGFlow or its Elasticsearch."
        )
    return knowledge


async def _datasets(ctx: RunContext, knowledge: Knowledge, entries: Sequence[str | Reference]) -> tuple[Dataset, ...]:
    """Find the datasets, each once.

    Raises:
        ComponentError: if one that a reference names does not exist, none exists, or they do not fit together.
    """
    asked: dict[str, bool] = {}
    for entry in entries:
        if isinstance(entry, str):
            asked.setdefault(entry, False)
            continue
        value = ctx.value(entry)
        for name in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if text := to_text(name).strip():
                asked[text] = True
    known: Mapping[str, Dataset] = await knowledge.datasets(list(asked)) if asked else {}
    for name, is_required in asked.items():
        if name not in known:
            if is_required:
                raise ComponentError(f"Dataset({name[:200]}) does not exist.", node=ctx.node.id)
            logger.warning("Node %s names the dataset %s, which does not exist.", ctx.node.id, name)
    found = tuple({dataset.id: dataset for name in asked if (dataset := known.get(name))}.values())
    if not found:
        raise ComponentError("No dataset is selected.", node=ctx.node.id)
    if len({dataset.embedding_model for dataset in found}) > 1:
        raise ComponentError("Knowledge bases use different embedding models.", node=ctx.node.id)
    return found


async def _documents(
    ctx: RunContext, knowledge: Knowledge, datasets: Sequence[Dataset], wanted: MetadataFilter, question: str
) -> tuple[str, ...] | None:
    """Give the ids of the documents that the filter lets through, None for all."""
    if wanted.method == "manual":
        conditions = [
            FilterCondition(row.key, row.op, _value(ctx, row.value)) for row in wanted.manual if row.key.strip()
        ]
        if not conditions:
            return None
        metadata = await knowledge.metadata(datasets)
        return await _matching(ctx, metadata, conditions, any_of=wanted.logic == "or")
    if wanted.method not in ("auto", "semi_auto"):
        return None
    metadata = await knowledge.metadata(datasets)
    forced: Mapping[str, str] = {}
    if wanted.method == "semi_auto":
        chosen = [field for field in wanted.semi_auto if field.key in metadata]
        forced = {field.key: field.op for field in chosen if field.op}
        metadata = {field.key: metadata[field.key] for field in chosen}
    if not metadata:
        return None
    conditions, any_of = await choose_conditions(ctx, question, metadata, forced)
    return await _matching(ctx, metadata, conditions, any_of=any_of) or None


async def _matching(
    ctx: RunContext, metadata: Metadata, conditions: Sequence[FilterCondition], *, any_of: bool
) -> tuple[str, ...]:
    """Compare in a thread: there may be a value for each of 100,000 documents."""
    return await ctx.run_in_thread(partial(filter_documents, metadata, conditions, any_of=any_of))


def _value(ctx: RunContext, value: JsonValue) -> JsonValue:
    """Give the value of a condition: a text with its references in place, a list as it is."""
    resolved = ctx.resolve(value)
    return cast("JsonValue", resolved) if isinstance(resolved, list) else to_text(resolved)
