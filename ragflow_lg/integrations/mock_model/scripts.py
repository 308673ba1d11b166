"""Choosing the reply to a request: the next reply from the first matching rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.integrations.mock_model.rules import Reply, Rule, Rules, TextTest, When


def find_offered(name: str, offered: Iterable[str]) -> str:
    """Return the offered tool with a name: its own, with or without the number, or its component's, ignoring case.

    Any other name is returned unchanged, so that rules can also name tools that do not exist.

    >>> find_offered("ExeSQL", ["search_0", "execute_sql_1"]), find_offered("execute_sql", ["execute_sql_1"])
    ('execute_sql_1', 'execute_sql_1')
    >>> find_offered("search_0", ["search_0"]), find_offered("nothing", ["search_0"])
    ('search_0', 'nothing')
    """
    names = list(offered)
    if name in names:
        return name
    plain = name.casefold()
    for name_of in (_without_number, _component_of):
        if found := next((tool for tool in names if name_of(tool).casefold() == plain), ""):
            return found
    return name


def names_of(offered: Iterable[str]) -> Iterator[str]:
    """Yield the names of the offered tools, and those of their components."""
    for tool in offered:
        yield tool
        if component := _component_of(tool):
            yield component


def _without_number(tool: str) -> str:
    return re.sub(r"_\d+$", "", tool)


def _component_of(tool: str) -> str:
    return _components().get(_without_number(tool), "")


@cache
def _components() -> Mapping[str, str]:
    """Return the names of all components that models can call, by function."""
    from ragflow_lg.catalog import load_catalog

    return {spec.tool.function: spec.name for spec in load_catalog() if spec.tool is not None and spec.tool.function}


_MAX_CHARS = 80


class MockRequest(Struct, frozen=True):
    """The parts of a request that rules can test."""

    model: str
    system: str
    user: str
    last: str
    last_role: str
    tools: tuple[str, ...]
    is_stream: bool
    wants_usage: bool
    chars: int
    """Total length of all messages."""


class ReplyChoice(NamedTuple):
    """A reply with the number of its rule and its number within that rule, both starting at 1."""

    reply: Reply
    rule: int
    number: int


class Script:
    """The rules, and how often each rule has matched and replied."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules.rules
        self._match_counts = [0] * len(rules.rules)
        self._reply_counts = [0] * len(rules.rules)
        self._sequences = [
            [index for index, r in enumerate(rule.replies) for _ in range(r.times)] for rule in rules.rules
        ]

    def choose(self, request: MockRequest) -> ReplyChoice:
        """Return the next reply of the first rule that matches.

        Raises:
            ServiceError: If no rule matches, the rule has no replies left, or a regular expression takes too long.
        """
        for index, rule in enumerate(self._rules):
            if not self._matches(index, rule, request):
                continue
            sequence, count = self._sequences[index], self._reply_counts[index]
            if count >= len(sequence) and rule.at_end == "next":
                continue
            if count >= len(sequence) and rule.at_end == "error":
                raise ServiceError(f"Rule {index + 1} has used all {len(sequence)} replies, and at_end is 'error'.")
            at = count % len(sequence) if rule.at_end == "again" else min(count, len(sequence) - 1)
            self._reply_counts[index] += 1
            return ReplyChoice(_with_offered(rule.replies[sequence[at]], request), index + 1, sequence[at] + 1)
        raise ServiceError(
            f"No rule matches: model {request.model!r}, last message of {request.last_role or 'nobody'} "
            f"{_shorten(request.last)!r}, user {_shorten(request.user)!r}, tools {list(request.tools)}. "
            "Add a rule, or one without `when` at the end."
        )

    def _matches(self, index: int, rule: Rule, request: MockRequest) -> bool:
        try:
            is_match = _matches(rule.when, request)
        except TimeoutError:
            raise ServiceError(f"A regular expression of rule {index + 1} takes too long; simplify it.") from None
        if not is_match:
            return False
        self._match_counts[index] += 1
        return rule.when.call is None or rule.when.call.has(self._match_counts[index])


def _with_offered(reply: Reply, request: MockRequest) -> Reply:
    """Return a reply whose calls have the names of the tools that the request offers."""
    if not reply.calls:
        return reply
    calls = [call.model_copy(update={"name": find_offered(call.name, request.tools)}) for call in reply.calls]
    return reply.model_copy(update={"calls": calls})


def _matches(when: When, request: MockRequest) -> bool:
    if when.last_role is not None and when.last_role != request.last_role:
        return False
    if when.stream is not None and when.stream != request.is_stream:
        return False
    if isinstance(when.tools, bool) and when.tools != bool(request.tools):
        return False
    if isinstance(when.tools, TextTest) and not any(map(when.tools.matches, names_of(request.tools))):
        return False
    tests = (
        (when.model, request.model),
        (when.system, request.system),
        (when.user, request.user),
        (when.last, request.last),
    )
    return all(test is None or test.matches(text) for test, text in tests)


def parse_request(body: Any) -> MockRequest:
    """Parse the body of a chat completion request.

    Raises:
        ServiceError: If the body is not a valid request.
    """
    if not isinstance(body, Mapping):
        raise ServiceError("The body should be a JSON object.")
    fields = cast("Mapping[str, Any]", body)
    model, messages = fields.get("model"), fields.get("messages")
    if not isinstance(model, str):
        raise ServiceError("'model' should be a string.")
    if not isinstance(messages, list) or not all(isinstance(m, Mapping) for m in cast("list[Any]", messages)):
        raise ServiceError("'messages' should be a list of objects.")
    texts = [(str(m.get("role", "")), _text(m.get("content"))) for m in cast("list[Mapping[str, Any]]", messages)]
    functions = (as_map(as_map(tool).get("function")) for tool in as_list(fields.get("tools")))
    return MockRequest(
        model,
        next((text for role, text in texts if role in ("system", "developer")), ""),
        next((text for role, text in reversed(texts) if role == "user"), ""),
        texts[-1][1] if texts else "",
        texts[-1][0] if texts else "",
        tuple(str(function.get("name", "")) for function in functions if function),
        fields.get("stream") is True,
        as_map(fields.get("stream_options")).get("include_usage") is True,
        sum(len(text) for _, text in texts),
    )


def _text(content: Any) -> str:
    """Return a message's text; if the message has parts, return its text parts."""
    return as_text(content) or "".join(as_text(as_map(part).get("text")) for part in as_list(content))


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
