"""What clients of the native API send."""

from __future__ import annotations

import re
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.server.database.tables import TITLE_CHARS

__all__ = [
    "ForkRequest",
    "NoFields",
    "OpenSession",
    "PinRequest",
    "PublishRequest",
    "RerunRequest",
    "ResumeRequest",
    "RunRequest",
]

MAX_FIELDS = 1000
MAX_FILES = 100
PAUSE_ID = r"^[0-9a-f]{32}$"
CHECKPOINT = r"^[0-9A-Za-z-]{0,64}$"


def _pause_id(text: str) -> str:
    if re.fullmatch(PAUSE_ID, text) is None:
        raise ValueError("is no id of a pause: take those of the run's `pauses`")
    return text


def _checkpoint(text: str) -> str:
    if re.fullmatch(CHECKPOINT, text) is None:
        raise ValueError("is no id of a checkpoint: take one of the session's history")
    return text


def _text_or_fields(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise ValueError("should be a text, or an object of fields")
    return cast("Any", value)


def _storable(text: str) -> str:
    return text.replace("\x00", "")


Line = Annotated[str, Field(max_length=TITLE_CHARS), AfterValidator(_storable)]
"""A text that fits a column; what a database cannot hold is left out."""
Text = Annotated[str, AfterValidator(_storable)]
Version = Annotated[
    str,
    Field(
        max_length=32,
        description="Which canvas: `draft`, `published`, or the id of a version. "
        "Left out: the one that was published last, or the draft if none was.",
        examples=["draft", "published", "0c7f4a1e2b5d4c8f9a3b6d7e8f901234"],
    ),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NoFields(_Body):
    """Nothing: the path says it all."""


class RunRequest(_Body):
    """What a turn is given."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"query": "Where is my parcel?"}, {"inputs": {"city": "Rome", "days": 3}}]},
    )

    query: Annotated[
        Text | dict[str, Any],
        BeforeValidator(_text_or_fields),
        Field(description="What the user says, or fields of Begin's form."),
    ] = ""
    inputs: Annotated[
        dict[str, Any], Field(max_length=MAX_FIELDS, description="Fields of Begin's form by name, plain values.")
    ] = Field(default_factory=dict[str, Any])
    files: Annotated[
        list[dict[str, Any]], Field(max_length=MAX_FILES, description="Uploads, as the upload gave them.")
    ] = Field(default_factory=list[dict[str, Any]])
    user_id: Annotated[Line, Field(description="Who asks; only a new session takes it.")] = ""
    session_id: Annotated[
        str, Field(max_length=TITLE_CHARS, description="The session to go on with; left out: a new one.")
    ] = ""
    session_name: Annotated[Line, Field(description="Name of a new session; left out: the beginning of the query.")] = (
        ""
    )
    version: Version = ""
    resume_from: Annotated[
        str,
        Field(
            max_length=64,
            description="A run to go on from. It is answered with `inputs` if it waits, continued if it was "
            "interrupted, begun again at the failed node if it failed; the query opens a new turn behind one that "
            "succeeded. A run with others behind it is forked first.",
        ),
    ] = ""


class ResumeRequest(_Body):
    """Answers to what a run waits for."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"answers": {"5f0c9a64d4e2f1a8b7c6d5e4f3a2b1c0": {"size": 42}}}, {"fields": {"size": 42}}]
        },
    )

    answers: Annotated[
        dict[Annotated[str, AfterValidator(_pause_id)], dict[str, Any]],
        Field(
            max_length=MAX_FIELDS,
            json_schema_extra={"propertyNames": {"pattern": PAUSE_ID}},
            description="By the id of the pause, the fields of its form by name, plain values. "
            "A form that is left out stays open.",
        ),
    ] = Field(default_factory=dict[str, Any])
    fields: Annotated[
        dict[str, Any],
        Field(
            max_length=MAX_FIELDS,
            description="Instead of `answers`: fields by name, for every open form that has them.",
        ),
    ] = Field(default_factory=dict[str, Any])


class RerunRequest(_Body):
    """Where to begin the last turn again, and with which values."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"node": "Message:Answer", "changes": {"env.tone": "friendly"}}]},
    )

    node: Annotated[Line, Field(min_length=1, description="Id of the node to begin with.")]
    round: Annotated[
        int | None,
        Field(ge=0, le=2**31 - 1, description="Round of the Loop or Iteration around it, from 0; left out: the last."),
    ] = None
    changes: Annotated[
        dict[str, Any],
        Field(max_length=MAX_FIELDS, description="Values to set before: `env.x`, `sys.x` or `node@output`."),
    ] = Field(default_factory=dict[str, Any])
    session_name: Annotated[Line, Field(description="Name of the new session.")] = ""


class ForkRequest(_Body):
    """The moment at which a new session begins."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{}, {"checkpoint": "1f0c7a52-9d1e-6f3a-8004-0242ac120002"}]}
    )

    checkpoint: Annotated[
        str,
        AfterValidator(_checkpoint),
        Field(
            json_schema_extra={"pattern": CHECKPOINT},
            description="A checkpoint of the session's history, or the beginning of its id; "
            "left out: where the run ended or waits.",
        ),
    ] = ""
    session_name: Annotated[Line, Field(description="Name of the new session.")] = ""


class OpenSession(_Body):
    """A session to make."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "Ada", "version": "published"}]})

    name: Line = ""
    user_id: Line = ""
    version: Version = ""


class PinRequest(_Body):
    """The version that a session keeps to from now on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"version": "published"}]})

    version: Annotated[Version, Field(min_length=1)]


class PublishRequest(_Body):
    """A version to publish."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"title": "Summer", "description": "Knows the new prices."}]}
    )

    title: Annotated[Line, Field(description="Left out: the agent's title.")] = ""
    description: Annotated[Text, Field(max_length=10_000)] = ""
    dsl: Annotated[
        dict[str, Any] | None, Field(description="A canvas that becomes the draft first; left out: the draft as it is.")
    ] = None
