"""Which sampling parameters RAGFlow sends to which models, and how it asks them to think.

One table for all providers. Source: ``_apply_model_family_policies`` and ``_clean_conf`` in RAGFlow's
``rag/llm/chat_model.py``. Its reasons are refusals: the providers' APIs answer 400 to what they do not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ragflow_lg.services.chat import ChatRequest


class ModelRule(NamedTuple):
    """What is sent to some models. The first rule that fits is used."""

    models: str
    """A regular expression that is searched for in the model's name, in lower case."""
    providers: frozenset[str] = frozenset()
    """The providers in lower case; empty for all."""
    dropped: tuple[str, ...] = ()
    """Sampling parameters that are not sent."""
    fixed: Mapping[str, float | int] = {}
    """Sampling parameters that are sent with these values, whatever the canvas says."""
    thinking: Literal["type", "enable_thinking"] = "type"
    """How the request says it: ``{"thinking": {"type": "enabled"}}`` or ``{"enable_thinking": true}``."""
    default_thinking: str = ""
    """What the request says if the canvas says nothing; ``""`` for nothing."""
    only_thinking: str = ""
    """The only value that the model accepts."""
    keeps_max_tokens: bool = False
    """Whether ``max_tokens`` is sent. RAGFlow removes it for all other models."""


_KIMI = {"top_p": 0.95, "n": 1, "presence_penalty": 0.0, "frequency_penalty": 0.0}

RULES = (
    ModelRule(r"qwen3.*(-preview|2\.4t-a95b)", thinking="enable_thinking", only_thinking="enabled"),
    ModelRule(r"qwen3", thinking="enable_thinking", default_thinking="disabled"),
    ModelRule("", frozenset({"deepseek"}), default_thinking="disabled", keeps_max_tokens=True),
    ModelRule(r"gpt-5", frozenset({"openai", "azure-openai"}), dropped=("temperature", "top_p")),
    ModelRule("", frozenset({"tencent hunyuan"}), dropped=("presence_penalty", "frequency_penalty")),
    ModelRule(r"kimi-k2\.[56]", frozenset({"moonshot"}), dropped=("temperature",), fixed=_KIMI),
    ModelRule("", frozenset({"mistral"}), keeps_max_tokens=True),
)
_NO_RULE = ModelRule("")
_SENT_IF_THINKING = frozenset({"moonshot"})
"""Providers whose models take the parameters of kimi-k2.5 as soon as the canvas says whether they think."""


def adapt_request(
    request: ChatRequest, provider: str, model: str, *, sends_max_tokens: bool
) -> tuple[ChatRequest, dict[str, Any]]:
    """Return a request with the parameters for its model, and what its body says about thinking."""
    rule = _find_rule(provider, model, request.thinking)
    asked = request.template_kwargs.get("enable_thinking")
    wanted = request.thinking or ({True: "enabled", False: "disabled"}[asked] if isinstance(asked, bool) else "")
    if rule.thinking != "enable_thinking":
        wanted = request.thinking
    thinking = rule.only_thinking or wanted or rule.default_thinking
    dropped = {*rule.dropped, *(() if sends_max_tokens or rule.keeps_max_tokens else ("max_tokens",))}
    sampling = {name: value for name, value in request.sampling.items() if name not in dropped} | dict(rule.fixed)
    body: dict[str, Any] = {}
    if thinking and rule.thinking == "enable_thinking":
        body["enable_thinking"] = thinking == "enabled"
    elif thinking:
        body["thinking"] = {"type": thinking}
    return replace(request, sampling=sampling), body


def find_unsent(sampling: Mapping[str, Any], provider: str, model: str, *, sends_max_tokens: bool) -> list[str]:
    """Return the sampling parameters of a canvas that are not sent as it says."""
    request = ChatRequest("", (), sampling)
    sent = adapt_request(request, provider, model, sends_max_tokens=sends_max_tokens)[0].sampling
    return [name for name, value in sampling.items() if sent.get(name) != value]


def _find_rule(provider: str, model: str, thinking: str) -> ModelRule:
    name, plain = model.lower(), provider.rpartition("@")[2].lower()
    for rule in RULES:
        is_forced = bool(thinking) and bool(rule.fixed) and plain in _SENT_IF_THINKING
        if (not rule.providers or plain in rule.providers) and (is_forced or re.search(rule.models, name)):
            return rule
    return _NO_RULE
