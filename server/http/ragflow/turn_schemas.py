"""Bodies of RAGFlow's routes that run turns."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field

from ragflow_lg.server.http.shared.route_schemas import Fields, Flag, Text, with_examples
from ragflow_lg.server.http.shared.turn_sessions import QuestionFields


def _read_query(value: Any) -> Any:
    return cast("Any", value) if isinstance(value, str | dict) else str(value)


Query = Annotated[str | dict[str, Any], BeforeValidator(_read_query)]


class CompletionBody(QuestionFields):
    """A turn."""

    model_config = with_examples(
        {"agent_id": "0c7f4a1e2b5d11f0", "query": "Where is my parcel?", "stream": False},
        {"agent_id": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    agent_id: Annotated[Text, Field(description="Id of the agent, unless the path names it.")] = ""
    query: Annotated[Query, Field(description="Message of the user, or fields of Begin's form.")] = ""
    question: Annotated[Query, Field(description="Alternative to `query`, which takes precedence.")] = ""
    name: Annotated[Text, Field(description="Name of a new session. Default: the beginning of the query.")] = ""
    return_trace: Annotated[Flag, Field(description="Whether to include the trace of nodes.")] = False
    openai_compatible: Annotated[
        Flag, Field(alias="openai-compatible", description="Whether to read `messages` and respond as OpenAI does.")
    ] = False
    messages: Annotated[Any, Field(description="The conversation, with `openai-compatible`.")] = None


class EmbeddedBody(CompletionBody):
    """A turn from an embedded page."""

    may_be_query = True

    stream: Flag = True


class PlayBody(CompletionBody):
    """A turn with a version, or the continuation of a run. All fields can also be sent as query parameters."""

    model_config = with_examples({"query": "Where is my parcel?", "version": "draft"})

    may_be_query = True

    user_input: Annotated[Query, Field(description="Alternative to `query`; takes precedence over it.")] = ""
    message: Annotated[Query, Field(description="Alternative to `query`, which takes precedence.")] = ""
    version: Annotated[Text, Field(description="Version for a new session: `draft`, `published` or an id.")] = ""
    resume_from: Annotated[Text, Field(description="Run to continue, in any state.")] = ""
    on_disconnect: Annotated[Any, Field(description="`cancel`, `continue` or `grace:SECONDS`.")] = None


class CancelBody(Fields):
    """The turn to cancel."""

    may_be_query = True

    session_id: Text = ""
    task_id: Annotated[Text, Field(description="Alternative to `session_id`, which takes precedence.")] = ""


class TaskChange(Fields):
    """A change of a task."""

    action: Any
