"""What clients of RAGFlow 1.0 get otherwise than those of 0.27, apart from frames; ``docs/ragflow_1.md`` lists it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.dsl.compatibility import WIRES

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import UserInputs

RAGFLOW_1 = WIRES[-1]
CANCELLED = "Agent run was cancelled."
_NO_ACCESS = "Make sure you have permission to access the agent."
_REFUSALS: Mapping[str, tuple[int, str]] = {
    "canvas not found.": (103, _NO_ACCESS),
    "Version not found.": (103, _NO_ACCESS),
    "Session not found!": (404, "agent session not found"),
    "No DSL data in request.": (101, "no DSL data in request"),
    "No title in request.": (101, "no title in request"),
    "The session is already running. Wait until its turn ends, or cancel it.": (
        103,
        "This agent session is already running.",
    ),
    "Authentication error: API key is invalid! ": (102, "Authorization is not valid!"),
}
"""The code and the text of 1.0 by the text of 0.27."""


def speaks_1() -> bool:
    """Return whether the client of the current request gets the responses of RAGFlow 1.0."""
    return current_notes().ragflow == RAGFLOW_1


def adapt_refusal(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a refusal as 1.0 sends it.

    >>> adapt_refusal({"code": 102, "message": "Session not found!", "data": False})
    {'code': 404, 'message': 'agent session not found', 'data': None}
    """
    code, message = _REFUSALS.get(body["message"], (body["code"], body["message"]))
    return {**body, "code": code, "message": message, **({"data": None} if body.get("data") is False else {})}


def drop_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row; for clients of 1.0 without the fields that are null."""
    return {name: value for name, value in row.items() if value is not None} if speaks_1() else dict(row)


def list_reference(reference: Mapping[str, Any]) -> dict[str, Any]:
    """Return sources as 1.0 sends them, but each chunk with the number by which the answer cites it.

    >>> list_reference({"chunks": {"7": {"id": "c"}}, "doc_aggs": {"a.md": {"count": 1}}})
    {'chunks': [{'id': 'c', 'citation_id': '7'}], 'doc_aggs': [{'count': 1}], 'total': 1}
    """
    chunks = [{**as_map(chunk), "citation_id": number} for number, chunk in as_map(reference.get("chunks")).items()]
    return {"chunks": chunks, "doc_aggs": list(as_map(reference.get("doc_aggs")).values()), "total": len(chunks)}


def describe_form(form: UserInputs) -> dict[str, Any]:
    """Return the data of ``waiting_for_user``, with the fields of all forms that wait: one answer is enough."""
    data = {"cpn_id": next(iter(form.nodes), ""), "tips": form.tips, "inputs": form.inputs}
    return {name: value for name, value in data.items() if value or name == "cpn_id"}
