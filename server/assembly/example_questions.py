"""Questions with which a conversation can begin, as far as the canvas tells. No model is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan, PlanNode

MAX_QUESTIONS = 3
_MAX_CHARS = 120
_QUERY = "sys.query"
_TEXTUAL = frozenset({"contains", "start with", "end with", "=", "is"})

QuestionKind = Literal[
    "own",
    "dataset",
    "summary",
    "knowledge",
    "tables",
    "rows",
    "encyclopedia",
    "papers",
    "medicine",
    "shares",
    "weather",
    "repositories",
    "news",
    "progress",
    "calculation",
    "debate",
    "abilities",
    "beginning",
]

_SOURCES: dict[str, QuestionKind] = {
    "Wikipedia": "encyclopedia",
    "ArXiv": "papers",
    "GoogleScholar": "papers",
    "PubMed": "medicine",
    "AkShare": "shares",
    "WenCai": "shares",
    "YahooFinance": "shares",
    "QWeather": "weather",
    "GitHub": "repositories",
}
"""What can be asked where a component or tool looks it up."""

_WEB = frozenset({"DuckDuckGo", "Google", "KeenableSearch", "QueritSearch", "SearXNG", "TavilySearch"})
_SEARCHES = re.compile(r"search|搜索|检索|研究", re.IGNORECASE)
_WRITES = re.compile(r"research|report|look into|find out|研究|报告|调研", re.IGNORECASE)
_SQL = re.compile(r"\bSQL\b")
_ROLE = re.compile(r"\byou(?: are| answer| help|['’]re)\b|\brole\b|你是|您是|角色", re.IGNORECASE)
_ID = re.compile(r"[0-9a-f]{32}")
_UNFIT = re.compile(r"\{|@|\d{5}")
"""References, addresses and numbers of somebody."""


class Question(NamedTuple):
    """A question. Those of a canvas are texts; the page words the others in the reader's language."""

    kind: QuestionKind
    value: str = ""


def find_questions(plan: Plan, title: str = "") -> list[Question]:
    """Return up to three questions: the canvas's own texts, then what its datasets and tools, or its model, can answer.

    A canvas that asks for a form, that no person talks to, or that says nothing of what fits it gets none.
    """
    params: Any = plan.nodes[plan.entry].params
    if getattr(params, "inputs", None) or getattr(params, "mode", "conversational") != "conversational":
        return []
    nodes = [node.params for node in plan.nodes.values()]
    rows = [row for each in nodes for row in _examples(each)]
    texts = [text for column in zip_longest(*rows) for text in column if text]
    texts += [text for each in nodes for text in _searched(each)]
    about = " ".join((title, plan.title, str(getattr(params, "prologue", "") or "")))
    parts = [part for node in plan.nodes.values() for part in node.with_tools()]
    own = [Question("own", text) for text in texts]
    return list(dict.fromkeys([*own, *_answerable(plan, parts, about)]))[:MAX_QUESTIONS]


def _examples(params: Any) -> Iterator[list[str]]:
    """Yield the examples of each category; an editor's field may have several in its lines."""
    categories: Any = getattr(params, "category_description", None) or {}
    for category in categories.values():
        lines = (line.strip(" \t\"'“”") for example in category.examples for line in example.splitlines())
        yield [" ".join(line.split()) for line in lines if _is_fit(line)]


def _searched(params: Any) -> Iterator[str]:
    """Yield the texts that a Switch looks for in the question."""
    for condition in getattr(params, "conditions", None) or ():
        for item in getattr(condition, "items", None) or ():
            value = getattr(item.value, "source", item.value)
            if str(item.cpn_id) == _QUERY and item.operator in _TEXTUAL and isinstance(value, str) and _is_fit(value):
                yield " ".join(value.split())


def _is_fit(text: str) -> bool:
    return bool(text.strip()) and len(text) <= _MAX_CHARS and not _UNFIT.search(text)


def _answerable(plan: Plan, parts: list[PlanNode], about: str) -> Iterator[Question]:
    """Yield what the datasets, the tools and the model can answer, the most special first."""
    names = dict.fromkeys(part.spec.name for part in parts)
    prompts = [
        str(getattr(prompt, "source", prompt)) for part in parts if (prompt := getattr(part.params, "sys_prompt", ""))
    ]
    if "ExeSQL" in names or any(_SQL.search(prompt) for prompt in prompts):
        yield from (Question("tables"), Question("rows"))
    elif "Retrieval" in names:
        yield from _about_datasets(parts)
    yield from (Question(_SOURCES[name]) for name in names if name in _SOURCES)
    if not _WEB.isdisjoint(names) and (_SEARCHES.search(about) or _begins_with_search(plan)):
        yield from (Question("news"), Question("progress"))
    elif prompts and "Retrieval" not in names and _WRITES.search(about):
        yield from (Question("debate"), Question("progress"))
    if any(tool.spec.name == "CodeExec" for part in parts for tool in part.tools):
        yield Question("calculation")
    if any(_ROLE.search(prompt) for prompt in prompts):
        yield from (Question("abilities"), Question("beginning"))


def _about_datasets(parts: list[PlanNode]) -> Iterator[Question]:
    required = (need for part in parts for need in part.spec.requires(part.params) if need.kind == "dataset")
    names = [name for name in dict.fromkeys(need.name for need in required) if not _ID.fullmatch(name)]
    yield from (Question("dataset", name) for name in names) if names else (Question("knowledge"),)
    yield from (Question("summary", name) for name in names[:1])


def _begins_with_search(plan: Plan) -> bool:
    return any(plan.nodes[id_].spec.name in _WEB for id_ in plan.nodes[plan.entry].targets)
