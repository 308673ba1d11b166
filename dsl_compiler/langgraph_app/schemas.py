"""Describes a canvas to LangGraph clients: schemas for input, state and settings, and node colours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl.forms import field_schema

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
    """An assistant's settings."""

    model: str = Field(default="", description='Replaces every model in the canvas; "demo" needs no key.')


class CanvasConfig(BaseModel):
    """An assistant's config, which contains its settings."""

    configurable: CanvasSettings = Field(default_factory=CanvasSettings)


class NoConfig(BaseModel):
    """The config for a region's body, which has no settings."""


_MESSAGES: dict[str, Any] = {
    "title": "Messages",
    "description": "The conversation. The user's last message is the query.",
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
    "description": 'Files for sys.files: {"name": …, "content": text or data: URI}.',
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "content": {"type": "string"}}},
}


def input_schema(plan: Plan) -> dict[str, Any]:
    """Return the schema for a request. ``inputs`` has Begin's fields."""
    form = plan.form
    inputs: dict[str, Any] = {"title": "Inputs", "description": "The fields of Begin's form.", "type": "object"}
    if form:
        inputs["properties"] = {field.name: field_schema(field) for field in form}
        if required := [field.name for field in form if not field.is_optional]:
            inputs["required"] = required
    properties: dict[str, Any] = {
        "query": {"title": "Query", "description": "The user's question (sys.query).", "type": "string"},
        "messages": _MESSAGES,
        "inputs": inputs,
        "files": _FILES,
        "user_id": {"title": "User id", "description": "The user's id (sys.user_id).", "type": "string"},
    }
    if form:  # required fields first
        properties = {"inputs": properties.pop("inputs"), **properties}
    return {"title": f"{_title(plan)} input", "type": "object", "properties": properties}


def output_schema(plan: Plan) -> dict[str, Any]:
    """Return the schema for the state after a turn."""
    outputs = {
        node.id: {"title": node.title or node.id, "description": node.spec.name, "type": "object"}
        for node in plan.nodes.values()
        if node.rank >= 0
    }
    properties: dict[str, Any] = {
        "messages": _MESSAGES,
        "outputs": {
            "title": "Outputs",
            "description": "Each component's outputs in the last turn, by component id.",
            "type": "object",
            "properties": outputs,
        },
        "globals": {
            "title": "Variables",
            "description": "Current values of sys.* and env.*.",
            "type": "object",
            "properties": {name: {"default": value} for name, value in plan.globals.items()},
        },
        "history": {
            "title": "History",
            "description": "All turns as [role, payload] pairs.",
            "type": "array",
            "items": {"type": "array"},
        },
        "turn": {"title": "Turn", "description": "The engine's record of the last turn.", "type": "object"},
    }
    return {"title": f"{_title(plan)} state", "type": "object", "properties": properties}


def colour_of(kind: str) -> str:
    """Return the colour for a kind of component, which is the same in every drawing."""
    return _COLOURS.get(kind, _PLAIN_COLOUR)


def _title(plan: Plan) -> str:
    return plan.title or "The canvas"
