"""Chat models of other LangChain packages, which installed packages bring by entry points."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError

from ragflow_lg.adapters.chat.openai_chat import MakeChat, OpenAIChat, function_of
from ragflow_lg.base.entry_points import load_entry_point
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.chat import ChatRequest

__all__ = ["CHAT_MODEL_GROUP", "LangChainChat", "find_client"]

logger = logging.getLogger(__name__)

CHAT_MODEL_GROUP = "ragflow_lg.chat_models"
"""Group of entry points that name a `ragflow_lg.adapters.chat.openai_chat.MakeChat`."""


def find_client(name: str) -> MakeChat:
    """Give what makes the chat models of a client that is installed.

    Raises:
        SettingsError: if there is none of the name, or it cannot be loaded.
    """
    found = {entry.name: entry for entry in entry_points(group=CHAT_MODEL_GROUP)}
    if name not in found:
        there = f"There are {', '.join(sorted(found))}." if found else "None is installed."
        raise SettingsError(f"No installed package brings the chat client {name!r} ({CHAT_MODEL_GROUP}). {there}")
    make = load_entry_point(found[name], "chat client")
    if not callable(make):
        raise SettingsError(f"The chat client {name!r} is nothing that can be called: {found[name].value}.")
    return make


class LangChainChat(OpenAIChat):
    """A model that LangChain reaches by another client than that for OpenAI's endpoints.

    ``thinking``, ``chat_template_kwargs`` and an answer by JSON schema are OpenAI-compatible servers' own: they are not
    passed on.
    """

    tells_its_end = False

    async def chat(self, request: ChatRequest) -> Any:
        """Give the client, which learns of tools in its own way."""
        with self.failures():
            chat = await self.endpoint.chat(self.model)
            return chat.bind_tools([function_of(tool) for tool in request.tools]) if request.tools else chat

    def options(self, request: ChatRequest) -> dict[str, Any]:
        """Give sampling values and stop words."""
        return {**request.sampling, **({"stop": list(request.stop)} if request.stop else {})}

    @contextmanager
    def failures(self) -> Generator[None]:
        """Turn whatever foreign code raises into a `ServiceError`, without the key."""
        try:
            yield
        except (ServiceError, asyncio.CancelledError):
            raise
        except TimeoutError:
            raise self.failure("did not answer in time", is_retryable=True) from None
        except NotImplementedError:
            raise self.failure("has a client that does not know tools; set has_tools = false") from None
        except (TypeError, LookupError, AttributeError, RecursionError, ValidationError) as error:
            # Their texts are about the client's inside, and may be pages.
            logger.info("The client of %s failed.", self.name, exc_info=True)
            raise self.failure(f"gave an answer that its client could not read ({type(error).__name__})") from None
        except Exception as error:  # noqa: BLE001 - any client may raise anything
            status = getattr(error, "status_code", None)
            is_retryable = isinstance(status, int) and (status in (408, 409, 429) or status >= 500)
            raise self.failure(f"failed: {type(error).__name__}: {error}", is_retryable=is_retryable) from None
