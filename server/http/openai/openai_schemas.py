"""The body of OpenAI-compatible requests. Other fields of OpenAI are ignored."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.route_schemas import Text, with_examples
from ragflow_lg.server.http.shared.turn_sessions import QuestionFields


def _read_messages(value: Any) -> Any:
    messages: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value] if value else []
    if not all(isinstance(message, dict) for message in messages) or isinstance(value, dict):
        raise RequestError("`messages` must be a list of objects.", 102)
    if any(not isinstance(message.get("content"), str | list | None) for message in messages):
        raise RequestError("The `content` of a message must be a text or a list of parts.", 102)
    return messages


class ChatBody(QuestionFields):
    """A conversation. Its last message with the role `user` is the query.

    With `inputs`, messages are optional; if a form is open, the inputs are the whole answer.
    """

    model_config = with_examples(
        {"model": "0c7f4a1e2b5d11f0", "messages": [{"role": "user", "content": "Where is my parcel?"}]},
        {"model": "0c7f4a1e2b5d11f0", "session_id": "5f0c9a64d4e211f0", "inputs": {"size": {"value": 42}}},
    )

    model: Annotated[Any, Field(description="Id of the agent; ignored if the path names an agent.")] = ""
    messages: Annotated[
        list[dict[str, Any]],
        BeforeValidator(_read_messages),
        Field(
            description="Required unless `inputs` is set. Images, audio and files are refused: list them in `files`."
        ),
    ] = Field(default=[])
    id: Annotated[Text, Field(description="Alternative to `session_id`, which takes precedence.")] = ""
    metadata: Annotated[Any, Field(description="`id` is an alternative to `session_id`, which takes precedence.")] = (
        None
    )
    user: Annotated[Text, Field(description="Id of the user; `user_id` takes precedence.")] = ""
