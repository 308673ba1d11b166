"""Placeholders for components that cannot run.

They keep the real component's position and edges, so that later passes report only independent errors. A canvas with a
placeholder never runs. The names of RAGFlow's components that are not in the catalog are listed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.lenient_values import as_texts, texts_in
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.plan import ExceptionPolicy, PlanNode
from ragflow_lg.component.spec import AnySpec, ComponentOutputs, ComponentParams, ComponentSpec, Kind, Route
from ragflow_lg.dsl.variable_references import ReferenceScope
from ragflow_lg.dsl_compiler.draft import RawComponent

MAX_TRIES = 3
MAX_PROBLEMS = 50

_PRESERVED_KINDS: frozenset[Kind] = frozenset({"entry", "interrupt", "region", "region_exit", "region_item"})
"""Kinds that a placeholder keeps. The checks for the other kinds depend on the params."""

LEGACY: dict[str, str] = {
    "Generate": "LLM, with the old prompt as sys_prompt and {sys.query} as the user prompt",
    "Answer": "Message for the answer and UserFillUp for a question; each turn starts with the user's query anyway",
    "Relevant": "Categorize with the categories yes and no",
    "RewriteQuestion": "LLM with a prompt that rewrites {sys.query}",
    "KeywordExtract": "LLM with a prompt that extracts keywords",
    "Keyword": "LLM with a prompt that extracts keywords",
    "Concentrator": "nothing: branches can meet at any node",
    "Template": "StringTransform with method merge",
    "Baidu": "TavilySearch or another search tool",
    "BaiduFanyi": "LLM with a prompt that translates",
    "Bing": "TavilySearch or another search tool",
    "Cite": "LLM or Agent with cite, which then cite the results of Retrieval themselves",
    "Code": "CodeExec",
    "IterationStart": "IterationItem",
    "LoopStart": "LoopItem",
}
"""Components from before RAGFlow 0.20, each with its replacement."""

_PIPELINE = (
    "File Parser TokenChunker Splitter TitleChunker HierarchicalMerger OneChunker QAChunker TableChunker "
    "PageChunker TagChunker Extractor Tokenizer Compiler Chunker GroupTitleChunker HierarchyTitleChunker "
    "ManualChunker PipelineChunker"
)
PIPELINE = frozenset(_PIPELINE.split())
"""Ingestion pipeline components. Such pipelines prepare documents and are not agents."""

REPLACED: dict[str, str] = {
    "QueryDecompositionRetrieval": "an Agent with Retrieval as its tool",
    "Webhook": "Begin with the mode Webhook",
    "YouComSearch": "TavilySearch or another search tool",
    "WebSearch": "the tool of its engine, such as TavilySearch, which is used if the parameter engine names it",
}
"""Components that only some versions or forks of RAGFlow have, each with its replacement."""

NOT_OFFERED = frozenset(["datasetnavigationbytree", "wikiquery"])
"""Tools of RAGFlow 1.0's engine that are not offered here, in lower case without underscores."""

RENAMED: dict[str, str] = {
    "Splitter": "TokenChunker",
    "HierarchicalMerger": "TitleChunker",
    "PDFGenerator": "DocGenerator",
    "DuckDuckGoSearch": "DuckDuckGo",
    "parallelNode": "Iteration",
}
"""Current names by the names in older documents."""

RENAMED_KEYS: dict[str, str] = {"llm_enabled_tools": "tools"}
"""Current names of parameters by the names in older documents, for all components."""

SEARCH_ENGINES: dict[str, str] = {
    "arxiv": "ArXiv",
    "duckduckgo": "DuckDuckGo",
    "google": "Google",
    "google_scholar": "GoogleScholar",
    "keenable": "KeenableSearch",
    "pubmed": "PubMed",
    "querit": "QueritSearch",
    "searxng": "SearXNG",
    "tavily": "TavilySearch",
    "wikipedia": "Wikipedia",
}
"""The tools by the ``engine`` of WebSearch, which some older documents use for all of them."""

RAGFLOW_1_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "bm25search": ("Retrieval", {"function_name": "bm25_search", "keywords_similarity_weight": 1.0, "top_n": 12}),
    "executesql": ("ExeSQL", {}),
    "googlescholarsearch": ("GoogleScholar", {}),
    "hybridsearch": ("Retrieval", {"function_name": "hybrid_search", "keywords_similarity_weight": 0.5, "top_n": 12}),
    "keenable": ("KeenableSearch", {}),
    "querit": ("QueritSearch", {}),
    "tavily": ("TavilySearch", {}),
    "vectorsearch": ("Retrieval", {"function_name": "vector_search", "keywords_similarity_weight": 0.0, "top_n": 12}),
    "webcrawler": ("Crawler", {}),
    "wikipediasearch": ("Wikipedia", {}),
}
"""The tools and their params by the names in RAGFlow 1.0's engine, in lower case without underscores."""


def current_name(name: str, params: Mapping[str, Any]) -> str:
    """Return the current name of a component.

    >>> current_name("WebSearch", {"engine": "Tavily"}), current_name("Splitter", {})
    ('TavilySearch', 'TokenChunker')
    """
    if name == "WebSearch":
        return SEARCH_ENGINES.get(str(params.get("engine"))[:40].strip().lower(), name)
    return RENAMED.get(name, name)


def rename_old_keys(params: Mapping[str, Any], spec: AnySpec) -> Mapping[str, Any]:
    """Rename old parameters that now have another name in the component, unless the new one is set."""
    fields = spec.params.model_fields
    renames = {old: new for old, new in RENAMED_KEYS.items() if old in params and new in fields and not params.get(new)}
    if not renames:
        return params
    rest = {key: value for key, value in params.items() if key not in renames and key not in renames.values()}
    return {**rest, **{new: params[old] for old, new in renames.items()}}


class _Params(ComponentParams):
    """Params of any content."""


async def _refuse(ctx: RunContext, params: Any) -> ComponentOutputs:
    raise ComponentError("The canvas has errors and cannot run.", node=ctx.node.id)


def placeholder_spec(name: str, *, kind: Kind = "plain", routes: Sequence[Route] = ()) -> AnySpec:
    """Build a spec that accepts any params and may have any output."""
    return ComponentSpec(
        name=name,
        kind="route" if routes and kind == "plain" else kind,
        params=_Params,
        outputs=ComponentOutputs,
        run=_refuse,
        description="",
        source="",
        output_names=lambda params: None,
        routes=lambda params: routes,
    )


def is_placeholder(spec: AnySpec) -> bool:
    """Return whether a spec is a placeholder."""
    return spec.params is _Params


def placeholder_node(component: RawComponent, spec: AnySpec, scope: ReferenceScope) -> PlanNode:
    """Build the node for a component with invalid params.

    Its edges are the ones in ``downstream`` and ``exception_goto``. For a router, they are all routes that can be read.
    """
    routes = _routes(component, spec, scope) if spec.kind == "route" else ()
    kind: Kind = spec.kind if spec.kind in _PRESERVED_KINDS else "plain"
    placeholder = placeholder_spec(spec.name, kind=kind, routes=routes)
    goto = tuple(NodeId(target) for target in as_texts(component.params.get("exception_goto")))
    return PlanNode(
        NodeId(component.id),
        placeholder,
        placeholder.params.model_construct(**dict(component.params)),
        component.title,
        0,
        component.pointer,
        on_error=ExceptionPolicy("goto", None, goto) if goto else ExceptionPolicy(),
        parent=NodeId(component.parent) if component.parent else None,
        params_pointer=component.params_pointer,
    )


def path_to_value(location: Sequence[str | int]) -> list[str | int]:
    """Return the path to a value, given pydantic's error location, which also contains validator names."""
    return [segment for segment in location if not str(segment).startswith(("function-", "literal["))]


def _routes(component: RawComponent, spec: AnySpec, scope: ReferenceScope) -> tuple[Route, ...]:
    """Return the routes in the params without invalid parts, or else one to each component that the params name."""
    params = _readable_params(component.params, spec, scope)
    if params is not None:
        return tuple(spec.routes(params))
    named = dict.fromkeys(text for text in texts_in(component.params) if text in scope.nodes)
    targets = {**dict.fromkeys(t for t in component.downstream if t in scope.nodes), **named}
    return tuple(Route(target, (target,)) for target in targets)


def _readable_params(raw: Mapping[str, Any], spec: AnySpec, scope: ReferenceScope) -> ComponentParams | None:
    """Remove invalid entries until the rest is valid. Return None if it never becomes valid."""
    for _ in range(MAX_TRIES):
        try:
            return spec.params.model_validate(raw, context={"scope": scope})
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)[:MAX_PROBLEMS]
        for problem in problems:
            raw = _without(raw, path_to_value(problem["loc"]))
    return None


def _without(value: Any, path: Sequence[str | int]) -> Any:
    """Copy a value without the map entry at a path. Return the value unchanged if there is no such entry."""
    if not path:
        return value
    first, *rest = path
    if isinstance(value, Mapping):
        copy = dict(cast("Mapping[Any, Any]", value))
        if first in copy:
            entry = copy.pop(first)
            return {**copy, first: _without(entry, rest)} if rest else copy
    elif isinstance(value, list) and isinstance(first, int):
        entries = list(cast("list[Any]", value))
        if first < len(entries):
            entries[first] = _without(entries[first], rest)
        return entries
    return cast("Any", value)
