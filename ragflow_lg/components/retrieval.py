"""Retrieval: search datasets."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, field_validator, model_validator

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.tokens import shorten
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.memory_user import memory_user
from ragflow_lg.component.spec import ComponentParams, OneOrMany, Requirement, TemplateOrValue, ToolResult
from ragflow_lg.component.tool import RunContext, tool
from ragflow_lg.dsl.old_values import strip_user_label
from ragflow_lg.dsl.variable_references import Reference, ReferenceScope, parse_reference, parse_template
from ragflow_lg.models.metadata_filter import FILTER_OPERATORS, FilterCondition, filter_documents, metadata_operator
from ragflow_lg.models.search_prompts import choose_conditions, translate_question
from ragflow_lg.services.chunks import readable_chunks, readable_documents
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Knowledge, Metadata
from ragflow_lg.services.memories import Memories, MemorySearch
from ragflow_lg.services.references import knowledge_text

logger = logging.getLogger(__name__)

MAX_QUESTION_CHARS = 10_000
MAX_MEMORY_TOKENS = 194_000
"""Maximum length of what a search in memories returns, as in RAGFlow."""
_USER_LABEL = re.compile(r"^user\s*[:：]\s*", re.IGNORECASE)
_SENT = ("sys.query", "sys.user_id")
MAX_CONDITIONS = 1_000
MAX_NAMED = 5
"""Maximum number of datasets that an error names."""
NO_DATASET = "No dataset is selected."
_METHODS = ("manual", "auto", "semi_auto")


def _dataset(value: Any) -> Any:
    """Read an entry: if it contains ``@`` or braces, it is a reference, whose last part may be any name."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        if isinstance(value, Reference):
            return value
        raise ValueError("must be the id or name of a dataset, or a reference")
    text = value.strip()
    inner = text.strip("{} \t\r\n")
    if "@" not in text and not text.startswith("{"):
        return text
    if reference := parse_reference(text):
        return reference
    node, separator, key = inner.partition("@")
    if separator and node and key:
        return Reference("output", inner, key, node)
    raise ValueError(f"{value!r} is not a reference such as component@output")


DatasetEntry = Annotated[
    Any, BeforeValidator(_dataset), PlainSerializer(str, when_used="json"), Field(json_schema_extra={"type": "string"})
]


def _query_text(value: Any) -> Any:
    if value is None or value in ([], {}):
        return ""
    return value if isinstance(value, str) else to_text(value)


class MetadataCondition(BaseModel):
    """One condition on document metadata."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: str = ""
    op: str = Field("=", examples=list(FILTER_OPERATORS))
    value: TemplateOrValue = ""
    """Text, which may contain references, or any other value."""

    @field_validator("op")
    @classmethod
    def _check_operator(cls, value: str) -> str:
        if not value.strip():
            return "="
        if (operator := metadata_operator(value)) is None:
            raise ValueError(f"{value!r} is not an operator; use one of {', '.join(FILTER_OPERATORS)}")
        return operator


class ChosenField(BaseModel):
    """A metadata field for which the model may choose a condition; ``op`` is its operator if it is fixed."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    key: str
    op: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, data: Any) -> Any:
        return {"key": data} if isinstance(data, str) else data

    @field_validator("op", mode="before")
    @classmethod
    def _read_operator(cls, value: Any) -> Any:
        return metadata_operator(value) or "" if isinstance(value, str) else ""


class MetadataFilter(BaseModel):
    """Restricts the search to documents with certain metadata."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    method: str | None = Field("", examples=["", *_METHODS])
    """``manual``: fixed conditions; ``auto``: the default model chooses them; ``semi_auto``: for certain fields."""
    logic: str | None = Field("and", examples=["and", "or"])
    """Whether all manual conditions must be true or only one."""
    manual: OneOrMany[MetadataCondition] = Field(default_factory=list[MetadataCondition])
    semi_auto: OneOrMany[ChosenField] = Field(default_factory=list[ChosenField])

    @field_validator("manual")
    @classmethod
    def _not_too_many(cls, value: list[MetadataCondition]) -> list[MetadataCondition]:
        if len(value) > MAX_CONDITIONS:
            raise ValueError(f"has {len(value):,} conditions; the limit is {MAX_CONDITIONS:,}")
        return value


class Params(ComponentParams):
    """Parameters of Retrieval."""

    dataset_ids: OneOrMany[DatasetEntry] = Field(default_factory=list[Any])
    """Ids or names of datasets, or references to them (``begin@dataset``), whose values may be lists."""
    kb_ids: OneOrMany[DatasetEntry] = Field(default_factory=list[Any])
    """The former name of ``dataset_ids``; used if ``dataset_ids`` is empty."""
    memory_ids: OneOrMany[str] = Field(default_factory=list[str])
    """Memories to search, by the ids of ``[memories.ID]``, if ``retrieval_from`` says so or there are no datasets."""
    retrieval_from: str | None = Field("", examples=["dataset", "memory"])
    user_id: TemplateOrValue = None
    """Whose memory is searched; ``sys.user_id`` if it is blank."""
    similarity_threshold: float = Field(0.2, ge=0, le=1)
    """Minimum score of chunks."""
    keywords_similarity_weight: float = Field(0.5, ge=0, le=1)
    """Weight of the keyword score; the vector score gets the rest."""
    top_n: int = Field(8, gt=0, le=10_000)
    """Maximum number of chunks."""
    top_k: int = Field(1024, gt=0, le=1_000_000)
    """Number of candidates in the vector search."""
    rerank_id: str | None = ""
    """Rerank model for the chunks."""
    empty_response: str | None = ""
    """The output if nothing is found or the query is blank."""
    use_kg: bool = False
    """Whether to search the knowledge graph as well, if there is one."""
    cross_languages: OneOrMany[str] = Field(default_factory=list[str])
    """Languages into which the default model translates the query."""
    toc_enhance: bool = False
    """Whether to add chunks based on the best document's table of contents."""
    meta_data_filter: MetadataFilter = Field(default_factory=lambda: MetadataFilter.model_validate({}))
    kb_vars: Any = None
    """Ignored, as in RAGFlow."""
    function_name: str | None = ""
    """Function name that an agent's model sees."""

    @field_validator("meta_data_filter", mode="before")
    @classmethod
    def _no_filter(cls, value: Any) -> Any:
        return {} if value in (None, "", []) else value

    @property
    def entries(self) -> Sequence[str | Reference]:
        """The non-blank entries of ``dataset_ids``, or else of ``kb_ids``."""
        entries = [entry for entry in self.dataset_ids if entry != ""]
        return entries or [entry for entry in self.kb_ids if entry != ""]

    @property
    def source(self) -> str:
        """What to search: ``dataset``, ``memory``, or ``""`` for nothing."""
        if self.retrieval_from in ("dataset", "memory"):
            return self.retrieval_from
        return "dataset" if self.entries else "memory" if any(self.memory_ids) else ""


class Arguments(BaseModel):
    """The search query."""

    query: Annotated[str, BeforeValidator(_query_text)] = Field(
        "", description="The search query: a complete question or its most important keywords."
    )


def _nothing(params: Params) -> ToolResult:
    return ToolResult(None, {"formalized_content": params.empty_response or ""})


def _lint(params: Params) -> Iterable[Finding]:
    if params.source == "memory":
        if not any(params.memory_ids):
            message = "No memory is set, so the node will fail."
            yield Finding("memory-unknown", "warning", ("memory_ids",), message, "Add the ids of [memories.ID].")
    elif not params.entries:
        effect = "the search fails" if params.source else "nothing is searched and the output is empty_response"
        message = f"No dataset is set, so {effect}."
        hint = "Add the ids or names of datasets to dataset_ids."
        yield Finding("dataset-unknown", "warning", ("dataset_ids",), message, hint)
    method = params.meta_data_filter.method
    if method and method not in (*_METHODS, "disabled", "none"):
        message = f"Unknown filter method {method!r}; all documents are searched."
        yield Finding("params-unsupported", "warning", ("meta_data_filter", "method"), message)


def _requires(params: Params) -> Iterable[Requirement]:
    if params.source == "memory":
        for index, memory in enumerate(params.memory_ids):
            if memory:
                yield Requirement("memory", memory, ("memory_ids", index))
    if params.source != "dataset":
        return
    key = "dataset_ids" if any(entry != "" for entry in params.dataset_ids) else "kb_ids"
    for index, entry in enumerate(getattr(params, key)):
        if isinstance(entry, str) and entry:
            yield Requirement("dataset", entry, (key, index))
    for option in ("use_kg", "toc_enhance"):
        if getattr(params, option):
            yield Requirement("search_option", option, (option,))
    if params.rerank_id:
        yield Requirement("reranker", params.rerank_id, ("rerank_id",))
    if params.cross_languages or params.meta_data_filter.method in ("auto", "semi_auto"):
        yield Requirement("model", "")


@tool(
    "Retrieval",
    function="search_my_dateset",
    params=Params,
    arguments=Arguments,
    defaults={"query": ""},
    blank=_nothing,
    read_name=lambda params: params.function_name or "",
    lint=_lint,
    requires=_requires,
    timeout_s=12.0,
    effects="pays",
    description="Search the datasets of this deployment. Returns numbered passages with title and content.",
    source="agent/tools/retrieval.py",
    aliases=("SearchMyDataset", "search_my_dataset", "search_my_dateset"),
)
async def retrieval(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Resolve the datasets, translate the query if requested, and search once."""
    if params.source == "memory":
        return await _search_memories(ctx, params, arguments.query)
    if not params.source:
        return _nothing(params)
    if not params.entries:
        raise ComponentError(NO_DATASET, node=ctx.node.id)
    knowledge = ctx.services.of(Knowledge)
    datasets = await _datasets(ctx, knowledge, params.entries)
    question = _read_again(ctx, arguments.query)[:MAX_QUESTION_CHARS]
    document_ids = await _documents(ctx, knowledge, datasets, params.meta_data_filter, question)
    if languages := [language for language in params.cross_languages if language.strip()]:
        question = await translate_question(ctx, question, languages)
    results = await knowledge.search(
        DatasetSearch(
            question=strip_user_label(question) if ctx.compatibility.old_values else _USER_LABEL.sub("", question),
            datasets=datasets,
            document_ids=document_ids,
            top_n=params.top_n,
            top_k=params.top_k,
            similarity_threshold=params.similarity_threshold,
            keywords_similarity_weight=params.keywords_similarity_weight,
            rerank_id=params.rerank_id or "",
            toc_enhance=params.toc_enhance,
            use_kg=params.use_kg,
        )
    )
    chunks, text = _render(results.chunks)
    if not chunks:
        return _nothing(params)
    documents = readable_documents(results.documents)
    return ToolResult(text, {"formalized_content": text, "json": [*chunks]}, chunks, documents=documents)


def _read_again(ctx: RunContext, query: str) -> str:
    """Return a query with what a user's text asks for, with ``old_values``: only values that the user has sent."""
    if not ctx.compatibility.old_values:
        return query
    parts: list[str] = []
    for part in parse_template(query[:MAX_QUESTION_CHARS], ReferenceScope(frozenset(), is_old=True)).segments:
        if isinstance(part, Reference) and part.key in _SENT:
            parts.append(to_text(ctx.peek(part))[:MAX_QUESTION_CHARS])
        else:
            parts.append(part if isinstance(part, str) else f"{{{part}}}")
    return "".join(parts)


async def _search_memories(ctx: RunContext, params: Params, query: str) -> ToolResult:
    """Search what is remembered about the user."""
    ids = tuple(id_ for id_ in params.memory_ids if id_)
    result = await ctx.services.of(Memories).search(
        MemorySearch(
            question=query[:MAX_QUESTION_CHARS],
            memories=ids,
            user=memory_user(ctx, params.user_id),
            top_n=params.top_n,
            similarity_threshold=params.similarity_threshold,
            keywords_similarity_weight=params.keywords_similarity_weight,
        )
    )
    if not result.is_known:
        raise ComponentError(_describe_unknown(ids), node=ctx.node.id)
    text = shorten("\n".join(entry.content for entry in result.entries), MAX_MEMORY_TOKENS)
    return ToolResult(text, {"formalized_content": text}) if text else _nothing(params)


def _describe_unknown(ids: Sequence[str]) -> str:
    """Return why no memory can be searched, and what to do. The first sentence is RAGFlow's."""
    if not ids:
        return "No memory is selected. Name one in memory_ids, or set retrieval_from to dataset."
    names, sections = ", ".join(f"{id_!r:.80}" for id_ in ids), " and ".join(f'[memories."{id_:.80}"]' for id_ in ids)
    verb = "are" if len(ids) > 1 else "is"
    return (
        f"No memory is selected: {names} {verb} not declared in the settings, or not for this tenant. Add {sections}"
        " to ragflow-lg.toml, or the id to memories of the tenant, or create one over HTTP."
    )


def _render(rows: Sequence[Any]) -> tuple[list[dict[str, JsonValue]], str]:
    """Return the chunks in readable form and their text for a model; slow for 10,000 chunks."""
    chunks = readable_chunks(rows)
    return chunks, knowledge_text(chunks)


async def _datasets(ctx: RunContext, knowledge: Knowledge, entries: Sequence[str | Reference]) -> tuple[Dataset, ...]:
    """Return the datasets without duplicates."""
    required: dict[str, bool] = {}
    for entry in entries:
        if isinstance(entry, str):
            required.setdefault(entry, False)
            continue
        value = ctx.value(entry)
        for name in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if text := to_text(name).strip():
                required[text] = True
    known: Mapping[str, Dataset] = await knowledge.datasets(list(required)) if required else {}
    for name, is_required in required.items():
        if name not in known:
            logger.warning("Node %s: %s", ctx.node.id, _describe_missing([name]))
            if is_required:
                raise ComponentError(_describe_missing([name]), node=ctx.node.id)
    datasets = tuple({dataset.id: dataset for name in required if (dataset := known.get(name))}.values())
    if not datasets:
        is_none = not required or ctx.compatibility.old_values
        raise ComponentError(NO_DATASET if is_none else _describe_missing(list(required)), node=ctx.node.id)
    if len({dataset.embedding_model for dataset in datasets if dataset.embedding_model}) > 1:
        raise ComponentError("Knowledge bases use different embedding models.", node=ctx.node.id)
    return datasets


def _describe_missing(names: Sequence[str]) -> str:
    """Return that datasets do not exist, and what to do. The first sentence is RAGFlow's for one that is looked up."""
    labels = [name[:200] if name.isprintable() else repr(name[:200]) for name in names[:MAX_NAMED]]
    missing = ", ".join(f"Dataset({label})" for label in labels) + (" …" if len(names) > MAX_NAMED else "")
    verb, it = ("does", "it") if len(names) == 1 else ("do", "them")
    return (
        f"{missing} {verb} not exist. Create {it} with `ragflow-lg kb create NAME --id {shlex.quote(labels[0])}` and "
        f"`ragflow-lg kb add FOLDER --dataset NAME`, or set [knowledge] url to the RAGFlow server that has {it}."
    )


async def _documents(
    ctx: RunContext, knowledge: Knowledge, datasets: Sequence[Dataset], metadata_filter: MetadataFilter, question: str
) -> tuple[str, ...] | None:
    """Return the ids of the documents that match the filter, None for all."""
    if metadata_filter.method == "manual":
        conditions = [
            FilterCondition(row.key, row.op, _value(ctx, row.value))
            for row in metadata_filter.manual
            if row.key.strip()
        ]
        if not conditions:
            return None
        metadata = await knowledge.metadata(datasets)
        return await _matching(ctx, metadata, conditions, any_of=metadata_filter.logic == "or")
    if metadata_filter.method not in ("auto", "semi_auto"):
        return None
    metadata = await knowledge.metadata(datasets)
    fixed_operators: Mapping[str, str] = {}
    if metadata_filter.method == "semi_auto":
        fields = [field for field in metadata_filter.semi_auto if field.key in metadata]
        fixed_operators = {field.key: field.op for field in fields if field.op}
        metadata = {field.key: metadata[field.key] for field in fields}
    if not metadata:
        return None
    conditions, any_of = await choose_conditions(ctx, question, metadata, fixed_operators)
    return await _matching(ctx, metadata, conditions, any_of=any_of) or None


async def _matching(
    ctx: RunContext, metadata: Metadata, conditions: Sequence[FilterCondition], *, any_of: bool
) -> tuple[str, ...]:
    """Filter in a worker if there are many values: there may be one for each of 100,000 documents."""
    return tuple(await ctx.services.workers.run(filter_documents, metadata, conditions, any_of=any_of))


def _value(ctx: RunContext, value: JsonValue) -> JsonValue:
    """Return the value of a condition: text with its references replaced, or an unchanged list."""
    resolved = ctx.resolve(value)
    return cast("JsonValue", resolved) if isinstance(resolved, list) else to_text(resolved)
