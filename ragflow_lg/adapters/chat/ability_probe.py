"""Small requests that find out what a server does not tell about a model: each has an answer of a few tokens."""

from __future__ import annotations

from msgspec.structs import replace

from ragflow_lg.adapters.chat.chat_settings import ModelSettings
from ragflow_lg.adapters.chat.model_abilities import IMAGE_REQUEST, NOTHING_KNOWN, SMALL_REQUEST, Abilities
from ragflow_lg.adapters.chat.openai_chat import OpenAIChat
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.thinking import split_thoughts
from ragflow_lg.services.chat import ChatAnswer, ChatRequest, ToolSchema

_SCHEMA = {"type": "object", "properties": {"ready": {"type": "boolean"}}, "required": ["ready"]}
_TOOL = ToolSchema("look_up", "Look up a word.", {"type": "object", "properties": {"word": {"type": "string"}}})


async def probe_abilities(model: OpenAIChat) -> Abilities:
    """Return what the server tells, and what small requests find out, as far as the settings do not say it.

    A server may drop tools or images without a word. Then they add nothing to the number of tokens that it has read.
    """
    told = await model.learn()
    if not model.endpoint.is_openai_compatible:
        return told
    forced = OpenAIChat(model.model, model.endpoint, ModelSettings(has_schemas=True, sends_max_tokens=True))
    plain = await _ask(forced, SMALL_REQUEST)
    known = model.abilities
    found: dict[str, bool | None] = {}
    if known.has_tools is None:
        found["has_tools"] = _is_read(plain, await _ask(forced, replace(SMALL_REQUEST, tools=(_TOOL,))))
    if known.has_vision is None:
        found["has_vision"] = _is_read(plain, await _ask(forced, IMAGE_REQUEST))
    if known.has_schemas is None and (answer := await _ask(forced, replace(SMALL_REQUEST, schema=_SCHEMA))) is not None:
        # Nobody asked for JSON, so it is JSON only if the server forces it. llama.cpp permits a fence around it.
        found["has_schemas"] = answer.text.lstrip().startswith(("{", "```json")) or None
    if known.thinks is None and plain is not None:
        found["thinks"] = bool(split_thoughts(plain.text)[0]) or None
    return (await model.learn()).over(NOTHING_KNOWN._replace(**found))


async def _ask(model: OpenAIChat, request: ChatRequest) -> ChatAnswer | None:
    """Return an answer; None if the server refuses. A refusal for what the model cannot do is remembered."""
    try:
        return await model.complete(request)
    except ServiceError:
        return None


def _is_read(plain: ChatAnswer | None, answer: ChatAnswer | None) -> bool | None:
    """Return whether the model has read more than the plain request; None if its server does not count tokens."""
    if plain is None or answer is None or not plain.usage.prompt_tokens or not answer.usage.prompt_tokens:
        return None
    return answer.usage.prompt_tokens > plain.usage.prompt_tokens
