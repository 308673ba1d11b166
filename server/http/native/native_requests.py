"""Request bodies of the native API."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.server.database.tables import NOTE_CHARS, TITLE_CHARS
from ragflow_lg.server.http.shared.ragflow_routes import with_examples

MAX_FIELDS = 1000
MAX_FILES = 100
PAUSE_ID = r"^[0-9a-f]{32}$"
CHECKPOINT = r"^[0-9A-Za-z-]{0,64}$"


def _pause_id(text: str) -> str:
    if re.fullmatch(PAUSE_ID, text) is None:
        raise ValueError("is not a pause id: use the ids in the run's `pauses`")
    return text


def _checkpoint(text: str) -> str:
    if re.fullmatch(CHECKPOINT, text) is None:
        raise ValueError("is not a checkpoint id: use one from the session's history")
    return text


def _text_or_fields(value: Any) -> Any:
    if not isinstance(value, str | dict):
        raise ValueError("must be a string or an object of fields")
    return cast("Any", value)


def _storable(text: str) -> str:
    return text.replace("\x00", "")


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


NoBoolean = BeforeValidator(_no_boolean)
"""Refuses true and false, which Pydantic would read as 1 and 0."""
Line = Annotated[str, Field(max_length=TITLE_CHARS), AfterValidator(_storable)]
"""Text that fits in a database column; NUL characters are removed."""
Text = Annotated[str, AfterValidator(_storable)]
Version = Annotated[
    str,
    Field(
        max_length=32,
        description="Version of the canvas: `draft`, `published`, or the id of a version. "
        "Default: the version published last, or the draft if none is published.",
        examples=["draft", "published", "0c7f4a1e2b5d4c8f9a3b6d7e8f901234"],
    ),
]
Inputs = Annotated[dict[str, Any], Field(max_length=MAX_FIELDS, description="Values of Begin's form by field name.")]


class Body(BaseModel):
    """A body that has no other fields."""

    model_config = ConfigDict(extra="forbid")

    begins_turn: ClassVar[bool] = False
    """Whether the body begins a turn, and is therefore limited."""


class NoFields(Body):
    """An empty body."""


class RunRequest(Body):
    """The input for a turn."""

    begins_turn = True

    model_config = with_examples({"query": "Where is my parcel?"}, {"inputs": {"city": "Rome", "days": 3}})

    query: Annotated[
        Text | dict[str, Any],
        BeforeValidator(_text_or_fields),
        Field(description="Message of the user, or fields of Begin's form."),
    ] = ""
    inputs: Inputs = Field(default_factory=dict[str, Any])
    files: Annotated[
        list[dict[str, Any]], Field(max_length=MAX_FILES, description="Files, as the upload route returned them.")
    ] = Field(default_factory=list[dict[str, Any]])
    user_id: Annotated[Line, Field(description="Id of the user; used for a new session only.")] = ""
    session_id: Annotated[
        str, Field(max_length=TITLE_CHARS, description="Session to continue. Default: a new session.")
    ] = ""
    session_name: Annotated[Line, Field(description="Name of a new session. Default: the beginning of the query.")] = ""
    version: Version = ""
    resume_from: Annotated[
        str,
        Field(
            max_length=64,
            description="Run to start from. A waiting run is answered with `inputs`, an interrupted run is "
            "continued, a failed run is repeated from the failed node, and after a successful run the query starts a "
            "new turn. A run that other runs follow is forked first.",
        ),
    ] = ""


class ResumeRequest(Body):
    """Answers to a run's open forms."""

    begins_turn = True

    model_config = with_examples(
        {"answers": {"5f0c9a64d4e2f1a8b7c6d5e4f3a2b1c0": {"size": 42}}}, {"fields": {"size": 42}}
    )

    answers: Annotated[
        dict[Annotated[str, AfterValidator(_pause_id)], dict[str, Any]],
        Field(
            max_length=MAX_FIELDS,
            json_schema_extra={"propertyNames": {"pattern": PAUSE_ID}},
            description="Form values by pause id and field name, as plain values. A form without an answer stays open.",
        ),
    ] = Field(default_factory=dict[str, Any])
    fields: Annotated[
        dict[str, Any],
        Field(
            max_length=MAX_FIELDS,
            description="Alternative to `answers`: values by field name, for every open form with such a field.",
        ),
    ] = Field(default_factory=dict[str, Any])


class _NewSession(Body):
    changes: Annotated[
        dict[str, Any],
        Field(max_length=MAX_FIELDS, description="Values to set before: `env.x`, `sys.x` or `node@output`."),
    ] = Field(default_factory=dict[str, Any])
    dsl: Annotated[
        dict[str, Any] | None,
        Field(
            description="Canvas that the new session uses instead, such as an edited one that is not saved. It is "
            "stored as an unpublished version; the draft stays as it is. A canvas that cannot continue the turn is "
            "refused (409)."
        ),
    ] = None
    session_name: Annotated[
        Line, Field(description="Name of the new session. Default: `↳`, the node that runs next, and the question.")
    ] = ""


class RerunRequest(_NewSession):
    """The node at which to rerun the last turn, and changed values."""

    model_config = with_examples({"node": "Message:Answer", "changes": {"env.tone": "friendly"}})

    node: Annotated[Line, Field(min_length=1, description="Id or title of the node to start at.")]
    round: Annotated[
        Annotated[int, Field(ge=0, le=2**31 - 1)] | None,
        NoBoolean,
        Field(description="Round of the enclosing Loop or Iteration, from 0. Default: the last."),
    ] = None


class ForkRequest(_NewSession):
    """The checkpoint at which a new session starts, and changed values."""

    model_config = with_examples(
        {}, {"checkpoint": "1f0c7a52-9d1e-6f3a-8004-0242ac120002", "changes": {"LLM:Draft@content": "Dear Ada, …"}}
    )

    checkpoint: Annotated[
        str,
        AfterValidator(_checkpoint),
        Field(
            json_schema_extra={"pattern": CHECKPOINT},
            description="Checkpoint id from the session's history, or the beginning of one. "
            "Default: where the run ended or waits.",
        ),
    ] = ""


class NodeTestRequest(Body):
    """A component to run alone."""

    model_config = with_examples({"node": "LLM:Draft", "inputs": {"sys.query": "Where is my parcel?"}})

    node: Annotated[Line, Field(min_length=1, description="Id or title of the component.")]
    inputs: Annotated[
        dict[str, Any],
        Field(max_length=MAX_FIELDS, description="Values by reference (`sys.query`, `node@output`), or form fields."),
    ] = Field(default_factory=dict[str, Any])
    run_id: Annotated[
        str,
        Field(
            max_length=64,
            description="Run whose values it reads, apart from `inputs`. Default: the values of a new session.",
        ),
    ] = ""
    version: Annotated[str, Field(max_length=32, description="Version of the canvas. Default: that of the run.")] = ""
    dsl: Annotated[dict[str, Any] | None, Field(description="Canvas to use instead of a version; not stored.")] = None


class OpenSession(Body):
    """A session to create."""

    model_config = with_examples({"name": "Ada", "version": "published"})

    name: Line = ""
    user_id: Line = ""
    version: Version = ""


class SessionChange(Body):
    """What changes in a session; what is left out stays."""

    model_config = with_examples({"name": "Where is the parcel?"}, {"pinned": True})

    name: Annotated[Line | None, Field(description="Name of the session; if empty, its first question.")] = None
    pinned: Annotated[
        Annotated[bool, Field(strict=True)] | None, Field(description="Whether lists begin with the session.")
    ] = None


class FeedbackRequest(Body):
    """What a reader thinks of an answer."""

    model_config = with_examples({"rating": "down", "note": "The price is an old one."}, {"rating": None})

    rating: Annotated[Literal["up", "down"] | None, Field(description="null takes the feedback back.")]
    note: Annotated[Text, Field(max_length=NOTE_CHARS, description="A remark of the reader.")] = ""


class PinRequest(Body):
    """The version that a session uses, starting with its next run."""

    model_config = with_examples({"version": "published"})

    version: Annotated[Version, Field(min_length=1)]


class PruneRequest(Body):
    """Which turns of a session keep their stored steps. With both limits, a turn is kept if either keeps it."""

    model_config = with_examples({"keep_turns": 20, "dry_run": True})

    keep_turns: Annotated[int, NoBoolean, Field(ge=1, le=1_000_000, description="How many of the last turns are kept.")]
    keep_days: Annotated[
        float,
        NoBoolean,
        Field(ge=0, le=36_500, description="Turns that ran within this number of days are kept; 0 for none."),
    ] = 0
    dry_run: Annotated[bool, Field(strict=True, description="Only report what would be deleted.")] = False


class PublishRequest(Body):
    """A version to publish."""

    model_config = with_examples({"title": "Summer", "description": "Knows the new prices."})

    title: Annotated[Line, Field(description="Default: the title of the agent.")] = ""
    description: Annotated[Text, Field(max_length=10_000)] = ""
    dsl: Annotated[
        dict[str, Any] | None,
        Field(description="Canvas that replaces the draft before it is published. Default: the current draft."),
    ] = None
