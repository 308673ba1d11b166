"""What OpenAI's clients can send beside the conversation: what is refused, and what changes nothing here.

Everything else is named in a header of the response; see `name_ignored`. That includes tools which a model may, but
need not call: Open WebUI sends its own with each message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.lenient_values import as_map

_TOOLS = "An agent uses the tools of its canvas, and never calls those of a client."
_FORM = "The canvas decides what form the answer has: its LLM or Agent can have a structured output."
_ONE = "An agent gives one answer of text."
_TOKENS = "An agent's answer can come from several models; nothing is known about single tokens."
_KEPT = "Conversations are stored in sessions: continue one with previous_response_id or session_id."

REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), _ONE),
    "modalities": ((["text"],), _ONE),
    "audio": ((), _ONE),
    "tool_choice": (("none", "auto"), _TOOLS),
    "function_call": (("none", "auto"), _TOOLS),
    "web_search_options": ((), _TOOLS),
    "response_format": (({"type": "text"},), _FORM),
    "text.format": (({"type": "text"},), _FORM),
    "logprobs": ((False,), _TOKENS),
    "top_logprobs": ((0,), _TOKENS),
    "logit_bias": (({},), _TOKENS),
    "prediction": ((), _TOKENS),
    "seed": ((), "An agent does not repeat its answers."),
    "stop": (([], ""), "An agent's answer ends where its canvas says."),
    "store": ((True,), f"{_KEPT} DELETE /v1/responses/ID deletes it."),
    "conversation": ((), _KEPT),
    "prompt": ((), "The prompts are in the canvas."),
}
"""The values that each allows, which ask for nothing, and the reason."""

UNSEEN = frozenset(
    ("parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier")
) | {"stream_options", "truncation"}
"""What changes nothing that a client could see."""


def check_parameters(sent: Mapping[str, Any]) -> list[str]:
    """Check fields of a body. Return the names of those that are ignored.

    Raises:
        RequestError: If a field asks for what an agent cannot do.
    """
    named = {**sent, **{f"text.{name}": value for name, value in as_map(sent.get("text")).items()}}
    named.pop("text", None)
    ignored: list[str] = []
    for name, value in named.items():
        if value is None or name in UNSEEN:
            continue
        allowed, reason = REFUSED.get(name, (None, ""))
        if allowed is None:
            ignored.append(name)
        elif not any(value == each and type(value) is type(each) for each in allowed):
            raise RequestError(f"`{name}` is not supported. {reason}", 101, reason="unsupported_parameter")
    return ignored
