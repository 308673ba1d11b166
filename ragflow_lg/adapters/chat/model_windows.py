"""The context window of a model, where its server or its refusal tells it.

vLLM and others put it into ``/v1/models``; llama.cpp's ``/props`` has the one it runs with, its ``/v1/models`` the one
that the model was trained with. Ollama's ``/api/ps`` has that of a loaded model, and ``/api/show`` what its file says.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.foreign_json import SMALL_BYTES, read_foreign_json
from ragflow_lg.base.json_scanner import JsonLimits
from ragflow_lg.base.lenient_values import as_list, as_map, as_text

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 3.0
"""How long a server may take for each question."""

_LIMITS = JsonLimits(SMALL_BYTES)
_MIN_TOKENS, _MAX_TOKENS = 128, 100_000_000
_NAMES = ("max_model_len", "loaded_context_length", "context_length", "context_window", "max_context_length")
_VERSION = re.compile(r"/v\d+$")
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)
_REFUSAL = re.compile(
    r"available context size \((\d{1,9}) tokens|maximum context length (?:is|of) (\d{1,9})|"
    r"context (?:length|window|size) (?:is |of )?(?:only )?\(?(\d{1,9})\)? tokens|max_model_len[^\d]{1,20}(\d{1,9})",
    re.IGNORECASE,
)
_ABOUT_LENGTH = re.compile(r"context (?:length|size|window)|max_model_len|prompt is too long", re.IGNORECASE)


def is_about_length(refusal: str) -> bool:
    """Return whether a server refuses a request because it is too long."""
    return _ABOUT_LENGTH.search(refusal) is not None


def find_window(refusal: str) -> int | None:
    """Return the window that a refusal names.

    >>> find_window("request (4111 tokens) exceeds the available context size (2048 tokens), try increasing it")
    2048
    >>> find_window("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
    8192
    """
    found = _REFUSAL.search(refusal)
    return _window(next(int(number) for number in found.groups() if number)) if found else None


async def ask_for_window(
    connections: httpx.AsyncClient, base_url: str, api_key: str, model: str, *, is_ollama: bool = False
) -> int | None:
    """Return the window that the server names for a model; None if it names none or does not answer.

    ``is_ollama`` says that the address is that of Ollama's own API.
    """
    base, headers = base_url.rstrip("/"), {"authorization": f"Bearer {api_key}"} if api_key else {}
    root = _VERSION.sub("", base)

    async def ask(method: str, url: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        response = await connections.request(method, url, headers=headers, json=body, timeout=TIMEOUT_S)
        is_small = response.status_code == 200 and len(response.content) <= SMALL_BYTES
        return as_map(read_foreign_json(response.content, _LIMITS)) if is_small else {}

    import httpx

    from ragflow_lg.adapters.http.answer_limits import AnswerTooLargeError

    with suppress(httpx.HTTPError, httpx.InvalidURL, ForeignJsonError, AnswerTooLargeError):
        if is_ollama:
            return await _ask_ollama(ask, root, model)
        rows = [as_map(row) for row in as_list((await ask("GET", f"{base}/models")).get("data"))]
        names = _ollama_names(model)
        row = next((row for row in rows if row.get("id") in names), rows[0] if len(rows) == 1 else {})
        if window := next((found for name in _NAMES if (found := _window(row.get(name)))), None):
            return window
        if trained := _window(as_map(row.get("meta")).get("n_ctx_train")):
            props = await ask("GET", f"{root}/props")
            return _window(as_map(props.get("default_generation_settings")).get("n_ctx")) or trained
        if row.get("owned_by") == "library":
            return await _ask_ollama(ask, root, model)
    return None


def _ollama_names(model: str) -> tuple[str, str]:
    """Return the names by which Ollama lists a model."""
    return model, f"{model}:latest"


async def _ask_ollama(ask: Callable[..., Awaitable[Mapping[str, Any]]], root: str, model: str) -> int | None:
    """Return the window of a loaded model, else what its file says. Ollama loads many with less."""
    loaded = [as_map(row) for row in as_list((await ask("GET", f"{root}/api/ps")).get("models"))]
    running = (row.get("context_length") for row in loaded if row.get("name") in _ollama_names(model))
    if window := _window(next(running, None)):
        return window
    shown = await ask("POST", f"{root}/api/show", {"model": model})
    if found := _NUM_CTX.search(as_text(shown.get("parameters"))):
        return _window(int(found[1]))
    info = as_map(shown.get("model_info"))
    return next((_window(value) for name, value in info.items() if name.endswith(".context_length")), None)


def _window(value: Any) -> int | None:
    return value if type(value) is int and _MIN_TOKENS <= value <= _MAX_TOKENS else None
