"""Calling a canvas from a node of another canvas: its parameters and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import ApprovalNeeded, ComponentError
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.spec import ToolResult
from ragflow_lg.dsl.forms import FormField, field_type, form_problems, is_file

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest

QUERY = "query"


def takes_query(plan: Plan) -> bool:
    """Return whether a canvas accepts a question in addition to its form."""
    return getattr(plan.nodes[plan.entry].params, "mode", "conversational") == "conversational"


def parameter_schema(plan: Plan) -> dict[str, Any]:
    """Return the JSON schema for a canvas's parameters: its form and, for a conversational canvas, ``query``.

    File fields are left out, because a model cannot provide files.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    if takes_query(plan):
        properties[QUERY] = {"type": "string", "description": "The question, understandable without context."}
        required.append(QUERY)
    for field in plan.form:
        if is_file(field.type):
            continue
        properties[field.name] = _property(field)
        if not field.is_optional and field.name not in required:
            required.append(field.name)
    return {"type": "object", "properties": properties, "required": required}


def _property(field: FormField) -> dict[str, Any]:
    described = field_type(field)
    return {"type": described.pop("type"), "description": field.label, **described}


async def play_canvas(ctx: RunContext, arguments: Mapping[str, Any]) -> ToolResult:
    """Run this node's canvas once, with its own state; return its answer, outputs and sources.

    ``outputs`` contains ``content``, the text of its messages, and ``result``, its last node's outputs.

    Raises:
        ComponentError: if the arguments are not valid for the form, or the canvas fails. RunError: if a cycle repeats
        too often.
    """
    canvas = ctx.node.canvas
    if canvas is None or canvas.compiled is None:
        raise ComponentError("The canvas was not compiled.", node=ctx.node.id)
    request = _request(ctx, canvas.plan, arguments)
    turn = ctx.nested_turn()
    assert turn.nested is not None
    try:
        state = await canvas.compiled.play_inside(request, turn)
    finally:
        ctx.count(turn.nested.usage)
    if turn.nested.is_paused:
        raise ApprovalNeeded(ctx.node.id)
    turn_record = state.get("turn", {})
    if "error" in turn_record:
        _, _, node, text = turn_record["error"]
        title = canvas.plan.nodes[node].title or node
        raise ComponentError(f"The canvas {canvas.name!r} failed at {title!r}: {text}", node=ctx.node.id)
    last = turn_record["last"][2] if "last" in turn_record else ""
    outputs: Mapping[str, JsonValue] = state.get("outputs", {}).get(last, {})
    result: dict[str, JsonValue] = {
        name: value for name, value in outputs.items() if value is not None and not name.startswith("_")
    }
    answer = "\n\n".join(turn.nested.texts)
    references = turn_record.get("references", {})
    chunks, documents = (list(references.get(name, {}).values()) for name in ("chunks", "doc_aggs"))
    ended_with_message = bool(last) and canvas.plan.nodes[last].spec.kind == "message"
    tool_outputs: dict[str, JsonValue] = {"content": answer or to_text(result.get("content")), "result": result}
    return ToolResult(_value(answer, {} if ended_with_message else result), tool_outputs, chunks, documents=documents)


def _value(answer: str, result: Mapping[str, JsonValue]) -> JsonValue:
    """Return the tool result for a model: only the text if there are no other values."""
    if not answer:
        return result["content"] if set(result) == {"content"} else dict(result)
    return {"answer": answer, "result": dict(result)} if result else answer


def _request(ctx: RunContext, plan: Plan, arguments: Mapping[str, Any]) -> TurnRequest:
    """Create the request for the turn."""
    try:
        request = read_arguments(plan, arguments)
    except ComponentError as error:
        raise ComponentError(str(error), node=ctx.node.id) from None
    user = ctx.global_value("sys.user_id")
    return {**request, "user_id": user} if isinstance(user, str) and user else request


def read_arguments(plan: Plan, arguments: Mapping[str, Any]) -> TurnRequest:
    """Return the request for a turn with arguments that follow `parameter_schema`.

    Raises:
        ComponentError: if an argument is missing or has the wrong type.
    """
    fields = [field for field in plan.form if not is_file(field.type)]
    inputs = {field.name: arguments[field.name] for field in fields if arguments.get(field.name) is not None}
    problems = form_problems({field.name: _declared(field) for field in fields}, inputs)
    query = arguments.get(QUERY)
    if takes_query(plan) and not (isinstance(query, str) and query.strip()):
        problems.setdefault(QUERY, f"{QUERY!r} is required and must be text.")
    if problems:
        raise ComponentError("Invalid arguments: " + " ".join(problems.values()))
    return {
        "query": cast("str", query) if takes_query(plan) else "",
        "inputs": {name: {"value": value} for name, value in inputs.items()},
    }


def _declared(field: FormField) -> dict[str, JsonValue]:
    return {"name": field.label, "type": field.type, "optional": field.is_optional, "options": list(field.options)}
