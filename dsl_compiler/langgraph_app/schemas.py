"""The canvas as LangGraph's pages and clients are shown it: schemas of input, state and settings, node colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl.response_schema import field_schema

__all__ = ["CanvasConfig", "CanvasSettings", "NoConfig", "colour_of", "input_schema", "output_schema"]

_COLOURS: Mapping[str, str] = {
    "entry": "#2f9e6e",
    "message": "#3b74d6",
    "model": "#8450c9",
    "route": "#cf8a1c",
    "region": "#5b7083",
    "interrupt": "#cc4b4b",
}
_PLAIN_COLOUR = "#8796a5"


class CanvasSettings(BaseModel):
    """What an assistant can be set to."""

    model: str = Field(default="", description='Answers in place of every model of the canvas; "demo" needs no key.')


class CanvasConfig(BaseModel):
    """Where an assistant can be set to it."""

    configurable: CanvasSettings = Field(default_factory=CanvasSettings)


class NoConfig(BaseModel):
    """The config of a Loop's body, which has nothing to set."""


_MESSAGES: dict[str, Any] = {
    "title": "Messages",
    "description": "The conversation. The last message of the user is the query.",
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["human", "ai"]},
            "content": {"type": "string"},
            "id": {"type": "string"},
        },
        "required": ["type", "content"],
    },
}
_FILES: dict[str, Any] = {
    "title": "Files",
    "description": 'Read into sys.files: {"name": …, "content": text or data: URI}.',
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "content": {"type": "string"}}},
}


def input_schema(plan: Plan) -> dict[str, Any]:
    """Give the schema of a request; ``inputs`` has Begin's fields."""
    form = plan.form
    inputs: dict[str, Any] = {"title": "Inputs", "description": "The fields of Begin's form.", "type": "object"}
    if form:
        inputs["properties"] = {field.name: field_schema(field) for field in form}
        if required := [field.name for field in form if not field.is_optional]:
            inputs["required"] = required
    properties: dict[str, Any] = {
        "query": {"title": "Query", "description": "What the user says (sys.query).", "type": "string"},
        "messages": _MESSAGES,
        "inputs": inputs,
        "files": _FILES,
        "user_id": {"title": "User id", "description": "Who asks (sys.user_id).", "type": "string"},
    }
    if form:  # first what has to be filled in
        properties = {"inputs": properties.pop("inputs"), **properties}
    return {"title": f"{_title(plan)} input", "type": "object", "properties": properties}


def output_schema(plan: Plan) -> dict[str, Any]:
    """Give the schema of the state that a turn leaves."""
    outputs = {
        node.id: {"title": node.title or node.id, "description": node.spec.name, "type": "object"}
        for node in plan.nodes.values()
        if node.rank >= 0
    }
    properties: dict[str, Any] = {
        "messages": _MESSAGES,
        "outputs": {
            "title": "Outputs",
            "description": "What each component of the last turn gave, by its id.",
            "type": "object",
            "properties": outputs,
        },
        "globals": {
            "title": "Variables",
            "description": "sys.* and env.*, as they are now.",
            "type": "object",
            "properties": {name: {"default": value} for name, value in plan.globals.items()},
        },
        "history": {
            "title": "History",
            "description": "[role, payload] pairs of all turns.",
            "type": "array",
            "items": {"type": "array"},
        },
        "turn": {"title": "Turn", "description": "The engine's notes on the last turn.", "type": "object"},
    }
    return {"title": f"{_title(plan)} state", "type": "object", "properties": properties}


def colour_of(kind: str) -> str:
    """Return the colour of a kind of component, the same in every drawing."""
    return _COLOURS.get(kind, _PLAIN_COLOUR)


def _title(plan: Plan) -> str:
    return plan.title or "The canvas"
