"""The rules of a mock server: what a file of them may say, and reading it.

A file is TOML, or JSON where its name ends so. Rules are tried in order::

    [[rules]]
    when.user = "parcel"
    replies = [{ text = "It is on its way." }]

    [[rules]]
    replies = [{ status = 429, retry_after = 1 }, { text = "You said: ${user}" }]
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

import pydantic
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.devtools.mock_llm.rule_patterns import Pattern, compile_pattern

__all__ = ["CallSpan", "MockCall", "MockUsage", "Reply", "Rule", "Rules", "TextTest", "When", "load_rules"]

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_DELAY_S = 3600.0

_NO_BODY = (204, 205, 304)
_TESTS = ("is", "contains", "regex")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)


def _pattern(text: Any) -> Pattern:
    if not isinstance(text, str):
        raise ValueError("should be a text")
    return compile_pattern(text)


class TextTest(_Part):
    """What a text has to be, to contain, or to match somewhere; all that is given counts."""

    is_: str | None = Field(None, alias="is")
    contains: str | None = None
    regex: Annotated[Pattern | None, BeforeValidator(_pattern)] = None

    @model_validator(mode="after")
    def _says_something(self) -> TextTest:
        if self.is_ is None and self.contains is None and self.regex is None:
            raise ValueError(f"should say one of {', '.join(_TESTS)}")
        return self

    def fits(self, text: str) -> bool:
        """Tell whether a text passes.

        Raises:
            TimeoutError: if the regular expression takes too long.
        """
        if self.is_ is not None and text != self.is_:
            return False
        if self.contains is not None and self.contains not in text:
            return False
        return self.regex is None or self.regex.found_in(text)


def _contained(value: Any) -> Any:
    return {"contains": value} if isinstance(value, str) else value


def _equal(value: Any) -> Any:
    return {"is": value} if isinstance(value, str) else value


Contained: TypeAlias = Annotated[TextTest, BeforeValidator(_contained)]
"""A text that has to occur, or a `TextTest`."""
Equal: TypeAlias = Annotated[TextTest, BeforeValidator(_equal)]
"""A whole text, or a `TextTest`."""


class CallSpan(_Part):
    """Which requests of those that a rule fits otherwise: from 1, every one, every second one."""

    from_: Annotated[int, Field(ge=1)] = Field(1, alias="from")
    to: Annotated[int, Field(ge=1)] | None = None
    every: Annotated[int, Field(ge=1)] = 1

    def has(self, number: int) -> bool:
        """Tell whether the request of this number, from 1, is meant."""
        is_within = number >= self.from_ and (self.to is None or number <= self.to)
        return is_within and (number - self.from_ + 1) % self.every == 0


def _span(value: Any) -> Any:
    return {"from": value, "to": value} if isinstance(value, int) and not isinstance(value, bool) else value


class When(_Part):
    """What a request has to be like; what is not given fits everything."""

    model: Equal | None = None
    system: Contained | None = None
    user: Contained | None = None
    """The last user message."""
    last: Contained | None = None
    """The last message of all."""
    last_role: Literal["system", "user", "assistant", "tool"] | None = None
    tools: bool | Contained | None = None
    """Whether tools are offered, or the name of one of them."""
    stream: bool | None = None
    call: Annotated[CallSpan, BeforeValidator(_span)] | None = None


def _cuts(value: int | list[int]) -> int | list[int]:
    if isinstance(value, int):
        if value < 0:
            raise ValueError("should be 0 (whole) or a number of characters")
    elif value != sorted(set(value)) or (value and value[0] < 1):
        raise ValueError("should be places that grow, from 1 on")
    return value


Cuts: TypeAlias = Annotated[int | list[int], AfterValidator(_cuts)]
"""Where a text is cut into pieces: every so many characters (0: nowhere), or at these places."""
Delay: TypeAlias = Annotated[float, Field(ge=0, le=MAX_DELAY_S)]


class MockCall(_Part):
    """A call of a tool that the reply asks for. Arguments that are a text are sent as they are, JSON or not."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict[str, Any])
    id: str = ""
    """Default: a fresh one."""
    has_index: bool = True
    """Whether a streamed piece says which call it belongs to; some servers leave that out."""


class MockUsage(_Part):
    """What the reply says it has cost."""

    prompt_tokens: Annotated[int, Field(ge=0)] = 0
    completion_tokens: Annotated[int, Field(ge=0)] = 0


class Reply(_Part):
    """One reply. In its texts ``${user}``, ``${last}``, ``${model}`` and ``${number}`` stand for parts of the request.

    ``number`` counts the requests of the server, from 1.
    """

    text: str | list[str] = ""
    """A list is the pieces in which it is streamed."""
    json_: Any = Field(None, alias="json")
    """A value that is written as the text."""
    reasoning: str | list[str] = ""
    calls: list[MockCall] = Field(default_factory=list[MockCall])
    cut_text: Cuts = 16
    """Pieces of a streamed text or reasoning that is no list."""
    cut_names: Cuts = 0
    cut_arguments: Cuts = 0
    delay_s: Delay = 0.0
    """Before the first byte."""
    piece_delay_s: Delay = 0.0
    status: Annotated[int, Field(ge=200, le=599)] = 200
    error: str = ""
    """What a reply with an error status says."""
    retry_after: float | str | None = None
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    cut_after: Annotated[int, Field(ge=0)] | None = None
    """End the stream after so many pieces; a reply that is not streamed is cut in its middle."""
    cut: Literal["connection", "quiet"] = "connection"
    """How: the connection breaks off, or the answer ends in order but says nothing of its end."""
    error_after: Annotated[int, Field(ge=0)] | None = None
    """Send an error in the stream after so many pieces."""
    garbage: str | None = None
    """The whole body, in place of an answer."""
    usage: MockUsage | Literal[False] | None = None
    """Default: an estimate. false: no word of it."""
    finish_reason: str = ""
    times: Annotated[int, Field(ge=1)] = 1
    """How often it is given before the next one."""

    @model_validator(mode="after")
    def _agrees(self) -> Reply:
        if self.text and self.json_ is not None:
            raise ValueError("text and json are both given; leave one out")
        if self.status in _NO_BODY:
            raise ValueError(f"status {self.status} has no body; take another one")
        if self.error and self.status < 300 and self.error_after is None:
            raise ValueError("error is given without an error status; set status to 300 or more, or error_after")
        if self.status >= 300 and (self.text or self.calls or self.json_ is not None):
            raise ValueError("a reply with an error status says only error (or garbage); leave text, json, calls out")
        return self


class Rule(_Part):
    """Replies for the requests that fit, one after the other.

    ``at_end`` says what comes behind the last one: it is repeated, they begin again, an error, or the next rules are
    tried.
    """

    name: str = ""
    when: When = When()
    replies: Annotated[list[Reply], Field(min_length=1)]
    at_end: Literal["repeat", "again", "error", "next"] = "repeat"


class Rules(_Part):
    """A file of rules. ``models`` are what ``GET /v1/models`` lists; default: those that rules name."""

    rules: Annotated[list[Rule], Field(min_length=1)]
    models: list[str] = Field(default_factory=list[str])

    @property
    def model_names(self) -> list[str]:
        """The models that the server says it has."""
        named = [rule.when.model.is_ for rule in self.rules if rule.when.model and rule.when.model.is_]
        return self.models or list(dict.fromkeys(named)) or ["mock"]


def load_rules(path: Path) -> Rules:
    """Read a file of rules.

    Raises:
        SettingsError: if it cannot be read (names the line), or is wrong (names rule, field and fix).
    """
    value = _read(path)
    try:
        return Rules.model_validate(value)
    except pydantic.ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
    lines = dict.fromkeys(_problem(p["loc"], p["type"], p["msg"], value) for p in problems[:20])
    raise SettingsError("\n".join([f"The rules {str(path)!r} are wrong:", *lines]))


def _read(path: Path) -> Any:
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SettingsError(f"The rules {name!r} are larger than {MAX_FILE_BYTES:,} bytes.")
        text = data.decode("utf-8-sig")
        return json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"The rules {name!r} cannot be read: {(error.strerror or str(error)).lower()}.") from None
    except RecursionError:
        raise SettingsError(f"The rules {name!r} cannot be read: they are nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"The rules {name!r} are not UTF-8 text (at byte {error.start}).") from None
    except ValueError as error:
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise SettingsError(f"The rules {name!r} are not {kind}: {error}.") from None


def _problem(place: tuple[int | str, ...], kind: str, message: str, value: Any) -> str:
    """Say what is wrong with a field: its rule, its name, and what to do."""
    place = _as_written(place, value, is_missing=kind == "missing")
    if kind == "extra_forbidden":
        near = get_close_matches(str(place[-1]), _known(place[:-1]), n=1)
        message = "there is no such field." + (f" Did you mean {near[0]!r}?" if near else "")
        if not near:
            message += f" There are {', '.join(_known(place[:-1]))}."
    elif kind == "missing":
        message = "it is missing; add it."
    else:
        message = message.removeprefix("Value error, ").rstrip(".") + "."
    named = _named(place)
    return f"  {named}: {message}" if named else f"  {message}"


def _as_written(place: tuple[int | str, ...], value: Any, *, is_missing: bool) -> tuple[int | str, ...]:
    """Leave out what pydantic adds to a place for unions and functions: what the file does not have."""
    kept: list[int | str] = []
    for index, part in enumerate(place):
        if isinstance(value, list) and isinstance(part, int) and part < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[part]
        elif isinstance(value, Mapping) and (part in value or (is_missing and index == len(place) - 1)):
            value = cast("Mapping[Any, Any]", value).get(part)
        else:
            continue
        kept.append(part)
    return tuple(kept)


def _named(place: tuple[int | str, ...]) -> str:
    """Write a place: ``rule 2, reply 1: status``; numbers count from 1."""
    words: list[str] = []
    rest = list(place)
    for key, word in (("rules", "rule"), ("replies", "reply"), ("calls", "call")):
        if len(rest) > 1 and rest[0] == key and isinstance(rest[1], int):
            words.append(f"{word} {rest[1] + 1}")
            del rest[:2]
    field = ".".join(str(part) for part in rest)
    return ": ".join(part for part in (", ".join(words), field) if part)


def _known(place: tuple[int | str, ...]) -> list[str]:
    """Give the fields beside an unknown one."""
    model: Any = Rules
    for part in place:
        if isinstance(part, str):
            field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
            model = _model_in(field.annotation) if field is not None else None
        if model is None:
            return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
