"""Chat models from LangChain packages: those of the families, and others, registered through entry points."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from msgspec.structs import replace

from ragflow_lg.adapters.chat.chat_settings import ModelSettings
from ragflow_lg.adapters.chat.openai_chat import Endpoint, MakeChat, OpenAIChat
from ragflow_lg.adapters.chat.openai_messages import tool_definition, write_messages
from ragflow_lg.adapters.model_families.client_failures import ClientFailure
from ragflow_lg.adapters.model_families.families import FAMILIES
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import load_entry_point
from ragflow_lg.services.chat import ChatDelta, ChatRequest, Usage

logger = logging.getLogger(__name__)

CHAT_MODEL_GROUP = "ragflow_lg.chat_models"
"""Entry point group; each entry refers to a `ragflow_lg.adapters.chat.openai_chat.MakeChat`."""


def load_client(name: str) -> MakeChat:
    """Return the factory of the installed chat client with this name.

    Raises:
        SettingsError: if no client with this name is installed, or it cannot be loaded.
    """
    entry = named_client(name)
    if entry is None:
        clients = sorted(entry.name for entry in entry_points(group=CHAT_MODEL_GROUP))
        installed = f"Installed: {', '.join(clients)}." if clients else "No chat client is installed."
        raise SettingsError(
            f"No installed package provides the chat client {name!r} (entry points {CHAT_MODEL_GROUP}), and it is not "
            f"one of {', '.join(FAMILIES)}. {installed}"
        )
    make = load_entry_point(entry, "chat client")
    if not callable(make):
        raise SettingsError(f"The chat client {name!r} is not callable: {entry.value}.")
    return make


def named_client(name: str) -> EntryPoint | None:
    """Return the entry point of an installed chat client, or None."""
    return next((entry for entry in entry_points(group=CHAT_MODEL_GROUP) if entry.name == name), None)


class LangChainChat(OpenAIChat):
    """A chat model that uses a LangChain client other than the one for OpenAI.

    ``thinking``, ``chat_template_kwargs`` and JSON schemas for answers are not passed on: they are extensions of
    OpenAI-compatible servers.
    """

    requires_finish_reason = False

    async def chat(self, request: ChatRequest) -> Any:
        """Return the client with the request's tools bound by the client's own ``bind_tools``."""
        with self.failures():
            chat = await self.endpoint.chat(self.model)
            return chat.bind_tools([tool_definition(tool) for tool in request.tools]) if request.tools else chat

    def messages(self, request: ChatRequest) -> list[dict[str, Any]]:
        """Return the messages. Other APIs have one system prompt, which prompts of role ``system`` continue."""
        more = [message["content"] for message in request.messages if message["role"] == "system"]
        if not more:
            return write_messages(request)
        rest = tuple(message for message in request.messages if message["role"] != "system")
        system = "\n\n".join(text for text in (request.system, *more) if text)
        return write_messages(replace(request, system=system, messages=rest))

    def options(self, request: ChatRequest) -> dict[str, Any]:
        """Return sampling parameters and stop words."""
        request, _ = self.adapt(request)
        return {**request.sampling, **({"stop": list(request.stop)} if request.stop else {})}

    def merge_usage(self, before: Usage | None, added: Usage) -> Usage:
        """Return the usage of an answer after another chunk: LangChain's chunks contain their own."""
        return added if before is None else before.plus(added)._replace(calls=1)

    def reasoning(self, chunk: Any) -> str:
        """Return the reasoning text of a chunk, wherever its package puts it."""
        if isinstance(chunk.content, str):
            return super().reasoning(chunk)
        return "".join(block.get("reasoning") or "" for block in chunk.content_blocks if block["type"] == "reasoning")

    def explain(self, error: Exception, found: ClientFailure) -> str:
        """Return what a failure means for this kind of model."""
        if isinstance(error, NotImplementedError):
            return "has a client without tool support; set has_tools = false"
        if found.is_unreadable:
            logger.info("The client for %s failed.", self.name, exc_info=error)
        return found.text


class FamilyChat(LangChainChat):
    """A chat model of a family in `ragflow_lg.adapters.model_families`."""

    requires_finish_reason = True

    def __init__(self, model: str, endpoint: Endpoint, settings: ModelSettings) -> None:
        """Initialize. The endpoint must have a family."""
        assert endpoint.family is not None
        super().__init__(model, endpoint, settings)
        self._family = endpoint.family

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Yield the answer as it arrives."""
        async with (
            self._family.stream(),
            aclosing(cast("AsyncGenerator[ChatDelta]", super().stream(request))) as deltas,
        ):
            async for delta in deltas:
                yield delta

    def options(self, request: ChatRequest) -> dict[str, Any]:
        """Return the options under the names that the family uses."""
        return self._family.options(self.model, self.adapt(request)[0])

    def is_end(self, chunk: Any) -> bool:
        """Return whether a chunk says why the answer ends."""
        return bool(chunk.response_metadata.get(self._family.end_reason))
