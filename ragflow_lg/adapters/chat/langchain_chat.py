"""Chat models from LangChain packages other than langchain-openai, registered through entry points."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from ragflow_lg.adapters.chat.openai_chat import MakeChat, OpenAIChat
from ragflow_lg.adapters.chat.openai_messages import tool_definition
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import load_entry_point
from ragflow_lg.services.chat import ChatRequest

logger = logging.getLogger(__name__)

CHAT_MODEL_GROUP = "ragflow_lg.chat_models"
"""Entry point group; each entry refers to a `ragflow_lg.adapters.chat.openai_chat.MakeChat`."""


def load_client(name: str) -> MakeChat:
    """Return the factory of the installed chat client with this name.

    Raises:
        SettingsError: if no client with this name is installed, or it cannot be loaded.
    """
    clients = {entry.name: entry for entry in entry_points(group=CHAT_MODEL_GROUP)}
    if name not in clients:
        installed = f"Installed: {', '.join(sorted(clients))}." if clients else "No chat client is installed."
        raise SettingsError(
            f"No installed package provides the chat client {name!r} (entry points {CHAT_MODEL_GROUP}). {installed}"
        )
    make = load_entry_point(clients[name], "chat client")
    if not callable(make):
        raise SettingsError(f"The chat client {name!r} is not callable: {clients[name].value}.")
    return make


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

    def options(self, request: ChatRequest) -> dict[str, Any]:
        """Return sampling parameters and stop words."""
        return {**request.sampling, **({"stop": list(request.stop)} if request.stop else {})}

    @contextmanager
    def failures(self) -> Generator[None]:
        """Convert any exception from the client to a `ServiceError` without the API key."""
        try:
            yield
        except (ServiceError, asyncio.CancelledError):
            raise
        except TimeoutError:
            raise self.failure("did not answer in time", is_retryable=True) from None
        except NotImplementedError:
            raise self.failure("has a client without tool support; set has_tools = false") from None
        except (TypeError, LookupError, AttributeError, RecursionError, ValidationError) as error:
            # Their messages describe client internals and may be very long.
            logger.info("The client for %s failed.", self.name, exc_info=True)
            raise self.failure(f"returned an answer that its client could not parse ({type(error).__name__})") from None
        except Exception as error:  # noqa: BLE001 - any client may raise anything
            status = getattr(error, "status_code", None)
            is_retryable = isinstance(status, int) and (status in (408, 409, 429) or status >= 500)
            raise self.failure(f"failed: {type(error).__name__}: {error}", is_retryable=is_retryable) from None
