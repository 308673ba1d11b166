"""One short question to a chat model, to see whether it works."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatRequest

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.chat import ChatModel

QUESTION = "Reply with the word ready."
MAX_SHOWN_CHARS = 200


class Trial(NamedTuple):
    """What a model answered after some seconds, or why it did not."""

    seconds: float
    answer: str = ""
    problem: str = ""


async def ask_model(model: ChatModel) -> str:
    """Return the beginning of a model's answer to a question of five words."""
    answer = await model.complete(ChatRequest("", ({"role": "user", "content": QUESTION},)))
    return " ".join(answer.text.split())[:MAX_SHOWN_CHARS]


async def try_model(settings: Settings, llm_id: str, timeout_s: float = 30.0) -> Trial:
    """Ask a model of the settings once. The result contains no key of them."""
    began = time.monotonic()
    answer = problem = ""
    async with aclosing(ConfiguredModels(settings.chat_settings())) as models:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await ask_model(models.model(llm_id))
        except (RagflowLgError, TimeoutError) as error:
            problem = str(error) or f"It did not answer within {timeout_s:g} s."
    redactor = Redactor(settings.secrets)
    return Trial(time.monotonic() - began, redactor.text(answer), redactor.text(problem))
