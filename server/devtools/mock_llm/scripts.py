"""Choosing the reply: which rule fits a request, and which of its replies is next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.server.devtools.mock_llm.rules import Reply, Rule, Rules, TextTest, When

__all__ = ["Asked", "Chosen", "Script", "read_asked"]

_SHOWN_CHARS = 80


class Asked(Struct, frozen=True):
    """What rules look at in a request."""

    model: str
    system: str
    user: str
    last: str
    last_role: str
    tools: tuple[str, ...]
    is_stream: bool
    wants_usage: bool
    chars: int
    """Of all messages together."""


class Chosen(NamedTuple):
    """A reply, and the numbers from 1 of its rule and of itself."""

    reply: Reply
    rule: int
    number: int


class Script:
    """The rules, and how far each of them has come."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules.rules
        self._fitted = [0] * len(rules.rules)
        self._given = [0] * len(rules.rules)
        self._turns = [[index for index, r in enumerate(rule.replies) for _ in range(r.times)] for rule in rules.rules]

    def choose(self, asked: Asked) -> Chosen:
        """Give the next reply of the first rule that fits.

        Raises:
            ServiceError: if none fits, a rule has no reply left, or a regular expression takes too long.
        """
        for index, rule in enumerate(self._rules):
            if not self._fits(index, rule, asked):
                continue
            turns, given = self._turns[index], self._given[index]
            if given >= len(turns) and rule.at_end == "next":
                continue
            if given >= len(turns) and rule.at_end == "error":
                raise ServiceError(f"Rule {index + 1} has given all its replies ({len(turns)}), and at_end is 'error'.")
            at = given % len(turns) if rule.at_end == "again" else min(given, len(turns) - 1)
            self._given[index] += 1
            return Chosen(rule.replies[turns[at]], index + 1, turns[at] + 1)
        raise ServiceError(
            f"No rule fits: model {asked.model!r}, last message of {asked.last_role or 'nobody'} "
            f"{_shown(asked.last)!r}, user {_shown(asked.user)!r}, tools {list(asked.tools)}. "
            "Add a rule, or one without `when` at the end."
        )

    def _fits(self, index: int, rule: Rule, asked: Asked) -> bool:
        try:
            is_fitting = _fits(rule.when, asked)
        except TimeoutError:
            raise ServiceError(f"A regular expression of rule {index + 1} takes too long; make it simpler.") from None
        if not is_fitting:
            return False
        self._fitted[index] += 1
        return rule.when.call is None or rule.when.call.has(self._fitted[index])


def _fits(when: When, asked: Asked) -> bool:
    if when.last_role is not None and when.last_role != asked.last_role:
        return False
    if when.stream is not None and when.stream != asked.is_stream:
        return False
    if isinstance(when.tools, bool) and when.tools != bool(asked.tools):
        return False
    if isinstance(when.tools, TextTest) and not any(when.tools.fits(name) for name in asked.tools):
        return False
    tested = (
        (when.model, asked.model),
        (when.system, asked.system),
        (when.user, asked.user),
        (when.last, asked.last),
    )
    return all(test is None or test.fits(text) for test, text in tested)


def read_asked(body: Any) -> Asked:
    """Read the body of a request for a completion.

    Raises:
        ServiceError: if it is none.
    """
    if not isinstance(body, Mapping):
        raise ServiceError("The body should be a JSON object.")
    held = cast("Mapping[str, Any]", body)
    model, messages = held.get("model"), held.get("messages")
    if not isinstance(model, str):
        raise ServiceError("'model' should be a text.")
    if not isinstance(messages, list) or not all(isinstance(m, Mapping) for m in cast("list[Any]", messages)):
        raise ServiceError("'messages' should be a list of objects.")
    said = [(str(m.get("role", "")), _text(m.get("content"))) for m in cast("list[Mapping[str, Any]]", messages)]
    options = held.get("stream_options")
    return Asked(
        model,
        next((text for role, text in said if role in ("system", "developer")), ""),
        next((text for role, text in reversed(said) if role == "user"), ""),
        said[-1][1] if said else "",
        said[-1][0] if said else "",
        tuple(_tool_names(held.get("tools"))),
        held.get("stream") is True,
        isinstance(options, Mapping) and cast("Mapping[str, Any]", options).get("include_usage") is True,
        sum(len(text) for _, text in said),
    )


def _text(content: Any) -> str:
    """Give the text of a message; of one in parts those that are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [cast("Mapping[str, Any]", p) for p in cast("list[Any]", content) if isinstance(p, Mapping)]
    return "".join(text for p in parts if isinstance(text := p.get("text"), str))


def _tool_names(tools: Any) -> list[str]:
    if not isinstance(tools, list):
        return []
    held = [cast("Mapping[str, Any]", t).get("function") for t in cast("list[Any]", tools) if isinstance(t, Mapping)]
    return [str(cast("Mapping[str, Any]", f).get("name", "")) for f in held if isinstance(f, Mapping)]


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
