"""A mock server's rules: their format, and reading rules files.

A file is TOML, or JSON if its suffix is ``.json``. Rules are tried in order::

    [[rules]]
    when.user = "parcel"
    replies = [{ text = "It is on its way." }]

    [[rules]]
    replies = [{ status = 429, retry_after = 1 }, { text = "You said: ${user}" }]
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings.model_files import describe_fault, read_file

MAX_PATTERN_CHARS = 1000
MAX_SEARCHED_CHARS = 200_000
"""Maximum number of characters of a text to search."""
LIMIT_S = 0.25


def _compile(text: Any) -> Any:
    """Return the compiled regular expression."""
    import regex

    if not isinstance(text, str):
        raise ValueError("should be a string")
    if len(text) > MAX_PATTERN_CHARS:
        raise ValueError(f"the regular expression is longer than {MAX_PATTERN_CHARS:,} characters")
    try:
        return regex.compile(text)
    except regex.error as error:
        raise ValueError(f"{text!r} is not a valid regular expression: {error}") from None
    except RecursionError:
        raise ValueError("the regular expression is nested too deeply") from None


MAX_DELAY_S = 3600.0

_NO_BODY = (204, 205, 304)
_TESTS = ("is", "contains", "regex")


class _RuleModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)


class TextTest(_RuleModel):
    """A test for text. Every condition that is set must be met."""

    is_: str | None = Field(default=None, alias="is")
    contains: str | None = None
    regex: Annotated[Any, BeforeValidator(_compile)] = None

    @model_validator(mode="after")
    def _require_condition(self) -> TextTest:
        if self.is_ is None and self.contains is None and self.regex is None:
            raise ValueError(f"should have at least one of {', '.join(_TESTS)}")
        return self

    def matches(self, text: str) -> bool:
        """Return whether a text passes the test.

        Raises:
            TimeoutError: If the regular expression takes longer than `LIMIT_S`.
        """
        if self.is_ is not None and text != self.is_:
            return False
        if self.contains is not None and self.contains not in text:
            return False
        return self.regex is None or bool(self.regex.search(text[:MAX_SEARCHED_CHARS], timeout=LIMIT_S))


def _text_as(condition: str) -> BeforeValidator:
    return BeforeValidator(lambda value: {condition: value} if isinstance(value, str) else value)


Contained: TypeAlias = Annotated[TextTest, _text_as("contains")]
"""A substring, or a `TextTest`."""
Equal: TypeAlias = Annotated[TextTest, _text_as("is")]
"""The complete text, or a `TextTest`."""


class CallSpan(_RuleModel):
    """A selection from the requests that match all other conditions in a rule, counted from 1."""

    from_: Annotated[int, Field(ge=1)] = Field(default=1, alias="from")
    to: Annotated[int, Field(ge=1)] | None = None
    every: Annotated[int, Field(ge=1)] = 1

    def has(self, number: int) -> bool:
        """Return whether the request with this number, from 1, is selected."""
        is_within = number >= self.from_ and (self.to is None or number <= self.to)
        return is_within and (number - self.from_ + 1) % self.every == 0


def _as_span(value: Any) -> Any:
    return {"from": value, "to": value} if isinstance(value, int) and not isinstance(value, bool) else value


class When(_RuleModel):
    """Conditions on a request; a condition that is not set is always met."""

    model: Equal | None = None
    system: Contained | None = None
    user: Contained | None = None
    """The last user message."""
    last: Contained | None = None
    """The last message, from any role."""
    last_role: Literal["system", "user", "assistant", "tool"] | None = None
    tools: bool | Contained | None = None
    """Whether the request offers tools, or the name of one of them or of its component."""
    stream: bool | None = None
    call: Annotated[CallSpan, BeforeValidator(_as_span)] | None = None


def _check_cuts(value: int | list[int]) -> int | list[int]:
    if isinstance(value, int):
        if value < 0:
            raise ValueError("should be 0 (not cut) or a number of characters")
    elif value != sorted(set(value)) or (value and value[0] < 1):
        raise ValueError("should be increasing positions, from 1")
    return value


Cuts: TypeAlias = Annotated[int | list[int], AfterValidator(_check_cuts)]
"""How to cut text into pieces: after every given number of characters (0: not cut), or at the given positions."""
Delay: TypeAlias = Annotated[float, Field(ge=0, le=MAX_DELAY_S)]


class MockCall(_RuleModel):
    """A tool call in a reply. String arguments are sent unchanged, even if they are not JSON."""

    name: str
    """The tool's name, with or without its number, or its component's name."""
    arguments: dict[str, Any] | str = Field(default_factory=dict[str, Any])
    id: str = ""
    """Default: a new id."""
    has_index: bool = True
    """Whether streamed pieces include the index of their call; some servers omit it."""


class MockUsage(_RuleModel):
    """The token usage in a reply."""

    prompt_tokens: Annotated[int, Field(ge=0)] = 0
    completion_tokens: Annotated[int, Field(ge=0)] = 0


class Reply(_RuleModel):
    """One reply. ``${user}``, ``${last}``, ``${model}`` and ``${number}`` are placeholders for parts of the request.

    ``number`` is the request's number on this server, starting at 1.
    """

    text: str | list[str] = ""
    """A list specifies the streamed pieces."""
    json_: Any = Field(default=None, alias="json")
    """A value to send as JSON text."""
    reasoning: str | list[str] = ""
    calls: list[MockCall] = Field(default_factory=list[MockCall])
    cut_text: Cuts = 16
    """How to cut streamed text or reasoning that is not a list."""
    cut_names: Cuts = 0
    cut_arguments: Cuts = 0
    delay_s: Delay = 0.0
    """Delay before the first byte."""
    piece_delay_s: Delay = 0.0
    status: Annotated[int, Field(ge=200, le=599)] = 200
    error: str = ""
    """The message for a reply with an error status."""
    retry_after: float | str | None = None
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    cut_after: Annotated[int, Field(ge=0)] | None = None
    """End the stream after this many pieces; a reply that is not streamed is cut in the middle."""
    cut: Literal["connection", "quiet"] = "connection"
    """``connection`` closes the connection; ``quiet`` ends the response normally, without an end marker."""
    error_after: Annotated[int, Field(ge=0)] | None = None
    """Send an error in the stream after this many pieces."""
    garbage: str | None = None
    """The body to send instead of a valid answer."""
    usage: MockUsage | Literal[False] | None = None
    """Default: an estimate. false: omit the usage."""
    finish_reason: str = ""
    times: Annotated[int, Field(ge=1)] = 1
    """How many times to use the reply before moving on to the next reply."""

    @model_validator(mode="after")
    def _check_fields(self) -> Reply:
        if self.text and self.json_ is not None:
            raise ValueError("text and json are both set; remove one of them")
        if self.status in _NO_BODY:
            raise ValueError(f"status {self.status} has no body; use another status")
        if self.error and self.status < 300 and self.error_after is None:
            raise ValueError("error is set without an error status; set status to 300 or more, or error_after")
        if self.status >= 300 and (self.text or self.calls or self.json_ is not None):
            raise ValueError("a reply with an error status can have only error or garbage; remove text, json and calls")
        return self


class Rule(_RuleModel):
    """Replies to matching requests, used in order.

    ``at_end`` determines what happens after the last reply: repeat it, start again with the first reply, send an error,
    or try the next rules.
    """

    name: str = ""
    when: When = When()
    replies: Annotated[list[Reply], Field(min_length=1)]
    at_end: Literal["repeat", "again", "error", "next"] = "repeat"


class AudioReply(_RuleModel):
    """An answer to a request for speech or for a transcript."""

    text: str = "You said: ${name}"
    """The transcript; ``${name}`` is the name of the file."""
    delay_s: Delay = 0.0
    status: Annotated[int, Field(ge=200, le=599)] = 200
    error: str = ""
    is_cut: bool = False
    """Whether the connection is closed in the middle of the answer."""


class AudioRules(_RuleModel):
    """``[audio]``: the answers for speech and for transcripts, in order; the last ones are repeated."""

    speech: Annotated[list[AudioReply], Field(min_length=1)] = Field(default_factory=lambda: [AudioReply()])
    transcriptions: Annotated[list[AudioReply], Field(min_length=1)] = Field(default_factory=lambda: [AudioReply()])


class Rules(_RuleModel):
    """A rules file. ``GET /v1/models`` lists ``models``; the default is the models named in rules."""

    rules: Annotated[list[Rule], Field(min_length=1)]
    models: list[str] = Field(default_factory=list[str])
    audio: AudioRules = Field(default_factory=AudioRules)

    @property
    def model_names(self) -> list[str]:
        """Return the models that the server lists."""
        names = [rule.when.model.is_ for rule in self.rules if rule.when.model and rule.when.model.is_]
        return self.models or list(dict.fromkeys(names)) or ["mock"]


def load_rules(path: Path) -> Rules:
    """Read a rules file.

    Raises:
        SettingsError: If it cannot be read (naming the line), or is invalid (naming the rule, the field and a fix).
    """
    is_json = path.suffix.lower() == ".json"
    value = read_file(path, json.loads, "JSON") if is_json else read_file(path)
    try:
        return Rules.model_validate(value)
    except pydantic.ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)[:20]
    lines: list[str] = []
    for fault in faults:
        place = _strip_union_parts(fault["loc"], value, is_missing=fault["type"] == "missing")
        name, text = _format_place(place), describe_fault(fault, Rules, place)
        lines.append(f"  {name}: {text}" if name else f"  {text}")
    raise SettingsError("\n".join([f"The rules in {path} are invalid:", *dict.fromkeys(lines)]))


def _strip_union_parts(place: tuple[int | str, ...], value: Any, *, is_missing: bool) -> tuple[int | str, ...]:
    """Remove the parts that pydantic adds to a location for unions and functions, which are not in the file."""
    parts: list[int | str] = []
    for index, part in enumerate(place):
        if isinstance(value, list) and isinstance(part, int) and part < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[part]
        elif isinstance(value, Mapping) and (part in value or (is_missing and index == len(place) - 1)):
            value = cast("Mapping[Any, Any]", value).get(part)
        else:
            continue
        parts.append(part)
    return tuple(parts)


def _format_place(place: tuple[int | str, ...]) -> str:
    """Format a location as ``rule 2, reply 1: status``; numbers start at 1."""
    words: list[str] = []
    rest = list(place)
    for key, word in (("rules", "rule"), ("replies", "reply"), ("calls", "call")):
        if len(rest) > 1 and rest[0] == key and isinstance(rest[1], int):
            words.append(f"{word} {rest[1] + 1}")
            del rest[:2]
    field = ".".join(str(part) for part in rest)
    return ": ".join(part for part in (", ".join(words), field) if part)
