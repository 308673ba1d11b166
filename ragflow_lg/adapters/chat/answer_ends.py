"""Why an answer ended, in the words of each API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.services.chat import AnswerEnd

ReadEnd: TypeAlias = AnswerEnd | Literal["interrupted"]

_NAMES = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""The names of the reason in LangChain's ``response_metadata``: OpenAI and Google, Anthropic, Bedrock, Ollama."""
_WORDS: Mapping[ReadEnd, str] = {
    "length": "length max_length max_output_tokens max_tokens model_context_window_exceeded model_length token_limit",
    "content_filter": "blocklist content_filter content_filtered guardrail_intervened image_safety language "
    "prohibited_content recitation refusal safety sensitive spii",
    "interrupted": "abort error insufficient_system_resource malformed_function_call malformed_model_output "
    "malformed_tool_use network_error unexpected_tool_call",
}


def end_reason(metadata: Mapping[str, Any]) -> str:
    """Return the provider's own word for the end of an answer, or ``""``."""
    found = next((str(metadata[name]) for name in _NAMES if metadata.get(name)), "")
    return found or ("safety" if as_map(metadata.get("prompt_feedback")).get("block_reason") else "")


def read_end(metadata: Mapping[str, Any]) -> ReadEnd:
    """Return why an answer ended; ``""`` if it has not, and ``stop`` for any word without a meaning of its own.

    >>> read_end({"finish_reason": "MAX_TOKENS"}), read_end({"stop_reason": "refusal"}), read_end({})
    ('length', 'content_filter', '')
    """
    reason = end_reason(metadata).lower()
    for end, words in _WORDS.items():
        if reason in words.split():
            return end
    return "stop" if reason else ""
