"""Reading of search queries from a model's answer: lines that begin with ``Search:``, or calls of a function."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, cast

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.services.chat import ChatAnswer, ToolCall, ToolSchema

MAX_QUERIES = 5
"""Maximum number of queries per round; any further queries are ignored."""
MAX_QUERY_CHARS = 300
_MAX_READ_CHARS = 50_000
_MAX_CANDIDATES = 200

SEARCH_FUNCTION = ToolSchema(
    "search",
    "Ask search queries. The next message contains what they found.",
    {
        "type": "object",
        "properties": {
            "queries": {
                "type": "array",
                "items": {"type": "string"},
                "description": f"Up to {MAX_QUERIES} queries, each of which can be understood on its own.",
            }
        },
        "required": ["queries"],
    },
)
"""The function with which models with tool calls ask their queries."""

# Repetitions are bounded, so that every text is read in linear time.
_LINE = re.compile(
    r"^[ \t]{0,8}(?:[-*•>]{1,3}[ \t]{1,4}|\d{1,3}[.)][ \t]{0,4})?[*_`]{0,3}"
    r"(?:search(?:[ _]query)?|query|搜索|查询|检索)(?:[ \t]\d{1,3})?[*_`]{0,3}[ \t]{0,2}[:：][*_`]{0,3}"
    r"[ \t]{0,8}([^\r\n]{1,2000})",
    re.IGNORECASE | re.MULTILINE,
)
_TAG = re.compile(r"</?think(?:ing)?>", re.IGNORECASE)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\s]+")
_QUOTES = " \t\"'`*_“”„‘’«»「」"
_NONE = frozenset(["", "none", "done", "n/a", "na", "null", "nothing", "no search", "no query", "无", "没有", "完成"])
_WORD = re.compile(r"\w+")


def read_queries(text: str, calls: Iterable[ToolCall] = ()) -> list[str]:
    r"""Return the queries in an answer without thinking sections, in order and without duplicates.

    >>> read_queries("Reasoning: unknown.\nSearch: mayor of Laos\n- Search: 'Mayor of Laos?'\nSearch: Laos")
    ['mayor of Laos', 'Laos']
    """
    candidates = [*_LINE.findall(text[:_MAX_READ_CHARS])[:_MAX_CANDIDATES], *_from_calls(calls)]
    queries: dict[str, str] = {}
    for candidate in candidates[:_MAX_CANDIDATES]:
        query = clean_query(candidate)
        if (key := query_key(query)) and query.casefold().strip(".!。") not in _NONE:
            queries.setdefault(key, query)
    return [*queries.values()]


def calls_of(answer: ChatAnswer) -> list[ToolCall]:
    """Return an answer's calls of the search function, whatever number or prefix the model adds to its name."""
    return [call for call in answer.calls if "search" in call.name.lower()]


def clean_query(text: str) -> str:
    """Return a query on one line, without quotes, control characters and tags, and with bounded length."""
    line = _UNPRINTABLE.sub(" ", _TAG.sub(" ", text[: 10 * MAX_QUERY_CHARS]))
    return line.strip(_QUOTES)[:MAX_QUERY_CHARS].rstrip()


def query_key(query: str) -> str:
    """Return a text that is equal for queries that differ only in case, punctuation or spacing.

    >>> query_key("The  Mayor of Vientiane?") == query_key("the mayor, of vientiane")
    True
    """
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", query).casefold()))


def _from_calls(calls: Iterable[ToolCall]) -> Iterator[str]:
    for call in calls:
        value: Any = call.arguments
        with suppress(ForeignJsonError):
            value = parse_foreign_json(call.arguments)
        if isinstance(value, dict):
            arguments = cast("dict[str, Any]", value)
            value = next((arguments[key] for key in ("queries", "query", "q") if key in arguments), None)
        yield from (entry for entry in _entries(value) if isinstance(entry, str))


def _entries(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]
