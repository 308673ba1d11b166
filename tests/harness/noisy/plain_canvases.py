"""The canvases that most attacks need."""

from collections.abc import Mapping
from typing import Any


def _node(name: str, params: Mapping[str, Any], *downstream: str) -> dict[str, Any]:
    return {"obj": {"component_name": name, "params": dict(params)}, "downstream": [*downstream]}


ECHO = {"components": {"begin": _node("Begin", {}, "m"), "m": _node("Message", {"content": ["Said {sys.query}"]})}}
FILES = {"components": {"begin": _node("Begin", {}, "m"), "m": _node("Message", {"content": ["{sys.files}"]})}}
FORM = {
    "components": {
        "begin": _node("Begin", {}, "f"),
        "f": _node("UserFillUp", {"inputs": {"size": {"name": "Size", "type": "integer"}}}, "m"),
        "m": _node("Message", {"content": ["Size {f@size}"]}),
    }
}
SLOW = {
    "components": {
        "begin": _node("Begin", {}, "l"),
        "l": _node("LLM", {"llm_id": "slow@Hostile", "prompts": "{sys.query}"}, "m"),
        "m": _node("Message", {"content": ["{l@content}"]}),
    }
}
"""Streams a piece each second, without end."""
WEBHOOK = {
    "components": {
        "begin": _node(
            "Begin",
            {
                "mode": "Webhook",
                "methods": [],
                "security": {"auth_type": "none", "allow_anonymous": True},
                "schema": {"body": {"type": "object", "properties": {"text": {"type": "string"}}}},
                "execution_mode": "Streaming",
            },
            "m",
        ),
        "m": _node("Message", {"content": ["Got {begin@body.text}"]}),
    }
}


def with_security(security: Mapping[str, Any]) -> dict[str, Any]:
    """Return the webhook with other access rules."""
    begin = WEBHOOK["components"]["begin"]
    params = {**begin["obj"]["params"], "security": dict(security)}
    return {"components": {**WEBHOOK["components"], "begin": _node("Begin", params, "m")}}
