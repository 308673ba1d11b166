"""What a turn is given by a body of RAGFlow's or OpenAI's routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import RequestError

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.server.database.tables import SessionRow
    from ragflow_lg.server.http.shared.auth import ApiCaller

__all__ = ["build_turn_request", "read_query"]


def read_query(body: dict[str, Any]) -> Any:
    """Read what is asked: a text, or an object of fields."""
    query: Any = body.get("query") or body.get("question") or ""
    return cast("Any", query) if isinstance(query, str | dict) else str(query)


def build_turn_request(caller: ApiCaller, session: SessionRow, body: dict[str, Any]) -> TurnRequest:
    """Read what a turn is given.

    Raises:
        RequestError: if a field has the wrong type.
    """
    request: TurnRequest = {"query": read_query(body), "user_id": session.user_id or caller.tenant}
    inputs: Any = body.get("inputs")
    if inputs:
        if not isinstance(inputs, dict):
            raise RequestError("`inputs` should be an object of fields.", 101)
        request["inputs"] = cast("dict[str, Any]", inputs)
    files: Any = body.get("files")
    if files:
        if not isinstance(files, list):
            raise RequestError("`files` should be a list of uploads.", 101)
        given = cast("list[Any]", files)
        request["files"] = given[0] if isinstance(given[0], list) else given
    if body.get("chat_template_kwargs"):
        request["chat_template_kwargs"] = body["chat_template_kwargs"]
    return request
