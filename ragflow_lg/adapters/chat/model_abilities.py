"""What a model can do, as far as its server, its refusals or small requests tell it.

vLLM, OpenRouter, Mistral and others put it into ``/v1/models``. llama.cpp's ``/props`` has the window it runs with and
what its prompt template can write; its ``/v1/models`` the window that the model was trained with. LM Studio has
``/api/v0/models``. Ollama's ``/api/ps`` has the window of a loaded model, and ``/api/show`` what its file says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.foreign_json import read_foreign_json
from ragflow_lg.base.json_scanner import TEXT_LIMITS
from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.services.chat import ChatRequest

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 3.0
"""How long a server may take for each question."""

_MIN_TOKENS, _MAX_TOKENS = 128, 100_000_000
_WINDOWS = ("max_model_len", "loaded_context_length", "context_length", "context_window", "max_context_length")
_VERSION = re.compile(r"/v\d+$")
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)
_WINDOW_IN_REFUSAL = re.compile(
    r"available context size \((\d{1,9}) tokens|maximum context length (?:is|of) (\d{1,9})|"
    r"context (?:length|window|size) (?:is |of )?(?:only )?\(?(\d{1,9})\)? tokens|max_model_len[^\d]{1,20}(\d{1,9})",
    re.IGNORECASE,
)


class Abilities(NamedTuple):
    """What a model can do; None if it is not known. All but ``thinks`` are settings of a model as well."""

    context_tokens: int | None = None
    has_vision: bool | None = None
    has_tools: bool | None = None
    has_schemas: bool | None = None
    thinks: bool | None = None

    def over(self, others: Abilities) -> Abilities:
        """Return these abilities; what is not known here is taken from others."""
        own: dict[str, Any] = {name: value for name, value in self._asdict().items() if value is not None}
        return others._replace(**own)

    def beyond(self, others: Abilities) -> Abilities:
        """Return what is known here, but not in others."""
        known: dict[str, Any] = {name: None for name, value in others._asdict().items() if value is not None}
        return self._replace(**known)

    @property
    def settings(self) -> list[str]:
        """The lines that keep them in the settings."""
        fields = self._asdict().items()
        return [f"{name} = {str(value).lower()}" for name, value in fields if value is not None and name != "thinks"]

    def __str__(self) -> str:
        """Return what is known in a few words."""
        window = [f"a window of {self.context_tokens:,} tokens"] if self.context_tokens else []
        words = {
            "images": self.has_vision,
            "tools": self.has_tools,
            "schemas": self.has_schemas,
            "thinking": self.thinks,
        }
        said = [word if is_so else f"no {word}" for word, is_so in words.items() if is_so is not None]
        return ", ".join([*window, *said])


NOTHING_KNOWN = Abilities()

SMALL_REQUEST = ChatRequest("", ({"role": "user", "content": "Reply with the word ready."},), {"max_tokens": 8})
_WHITE_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAAAAABWESUoAAAAFklEQVR42mP4TwAwjCoYVTCqYKQqAAA/aPwuq5iY/wAAAABJRU5ErkJggg=="
)
"""An image of 32 x 32 white pixels. Some models accept no smaller ones."""
IMAGE_REQUEST = replace(SMALL_REQUEST, images=(f"data:image/png;base64,{_WHITE_PNG}",))

_NO = r"(?:(?:not|n't|cannot)(?: \w+)? |\bno \w+ (?:\w+ ){0,3})(?:support|accept)\w*"
_BARE = r"(?<![\w-] )"
"""Not ``WebP images``, ``parallel tools``: words before a part of a request say which of its kinds are refused."""
_AT_ALL = r"(?= *(?:$|[^\w\s(]|or |(?:by|for|with|on) (?:this |the )?(?:model|server)))"
"""Not ``images larger than``, ``function names``: words after it do so as well."""
_NOT = r"(?:not (?:support|permit|allow)\w*|unsupported|unrecognized|unknown|unexpected|deprecated)"
_PARAMETER = r"(?:temperature|top_p|presence_penalty|frequency_penalty|enable_thinking|chat_template_kwargs|thinking)"
REFUSALS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "context_tokens": r"context (?:length|size|window)|max_model_len|prompt is too long",
        "counts_streams": r"stream_options|include_usage",
        "sends_max_tokens": r"max_(?:completion_)?tokens",
        "has_schemas": r"response_format|json_schema|structured outputs?|parse grammar",
        "has_vision": rf"{_NO} (?:images?|vision)(?: inputs?| content)?{_AT_ALL}|not a multimodal|variant `image_url`|"
        rf"{_BARE}(?:images?|vision)(?: inputs?)? (?:is|are) not supported{_AT_ALL}|image_url is only supported",
        "has_tools": rf"{_NO} (?:the use of )?(?:native )?(?:tools?|functions?)(?: use| calls?| calling)?{_AT_ALL}|"
        rf"{_BARE}(?:tools?|function)(?: use| calling)? (?:is|are) not (?:supported|enabled){_AT_ALL}|"
        r"tools? (?:param|choice) requires",
        "parameter": rf"{_NOT}[^.]{{0,60}}?\b{_PARAMETER}\b|\b{_PARAMETER}\b[^.]{{0,40}}?{_NOT}",
    }.items()
}
"""How servers word that they do not take a part of a request, by the setting that leaves it out."""


def find_refused(refusal: str) -> str:
    """Return which part of a request a server does not take, as a name in `REFUSALS`; ``""`` if it says something else.

    >>> find_refused("registry.ollama.ai/library/gemma2:2b does not support tools"), find_refused("no such model")
    ('has_tools', '')
    """
    return next((name for name, pattern in REFUSALS.items() if pattern.search(refusal)), "")


def find_window(refusal: str) -> int | None:
    """Return the window that a refusal names.

    >>> find_window("request (4111 tokens) exceeds the available context size (2048 tokens), try increasing it")
    2048
    >>> find_window("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
    8192
    """
    found = _WINDOW_IN_REFUSAL.search(refusal)
    return _window(next(int(number) for number in found.groups() if number)) if found else None


Ask: TypeAlias = Callable[..., Awaitable[Mapping[str, Any]]]


async def ask_for_abilities(
    connections: httpx.AsyncClient, base_url: str, api_key: str, model: str, *, is_ollama: bool = False
) -> Abilities:
    """Return what the server tells about a model; nothing if it does not answer.

    ``is_ollama`` says that the address is that of Ollama's own API.
    """
    base, headers = base_url.rstrip("/"), {"authorization": f"Bearer {api_key}"} if api_key else {}
    root = _VERSION.sub("", base)

    async def ask(method: str, url: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        response = await connections.request(method, url, headers=headers, json=body, timeout=TIMEOUT_S)
        # The lists of some hosts have hundreds of kilobytes.
        is_well = response.status_code == 200
        return as_map(await asyncio.to_thread(read_foreign_json, response.content, TEXT_LIMITS)) if is_well else {}

    import httpx

    from ragflow_lg.adapters.http.answer_limits import AnswerTooLargeError

    told = NOTHING_KNOWN
    with suppress(httpx.HTTPError, httpx.InvalidURL, ForeignJsonError, AnswerTooLargeError):
        if is_ollama:
            return await _ask_ollama(ask, root, model)
        row = _find_row(await ask("GET", f"{base}/models"), model)
        told = _read_row(row)
        if row.get("owned_by") == "library":
            return told.over(await _ask_ollama(ask, root, model))
        if row.get("owned_by") == "organization_owner":
            told = told.over(_read_row(_find_row(await ask("GET", f"{root}/api/v0/models"), model)))
        if trained := _window(as_map(row.get("meta")).get("n_ctx_train")):
            told = told._replace(context_tokens=told.context_tokens or trained)
            told = _read_props(await ask("GET", f"{root}/props")).over(told)
    return told


def _find_row(answer: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """Return the entry of a model, or the only one: llama.cpp serves one model by any name."""
    rows = [as_map(row) for row in as_list(answer.get("data"))]
    names = _ollama_names(model)
    return next((row for row in rows if row.get("id") in names), rows[0] if len(rows) == 1 else {})


def _read_row(row: Mapping[str, Any]) -> Abilities:
    """Read an entry of ``/v1/models``."""
    abilities, parameters = as_map(row.get("capabilities")), as_list(row.get("supported_parameters"))
    inputs = as_list(as_map(row.get("architecture")).get("input_modalities"))
    has_vision = _flag(abilities.get("vision"))
    if has_vision is None and inputs:
        has_vision = "image" in inputs
    if has_vision is None and row.get("type") in ("vlm", "llm"):
        has_vision = row["type"] == "vlm"
    return Abilities(
        next((found for name in _WINDOWS if (found := _window(row.get(name)))), None),
        has_vision,
        "tools" in parameters if parameters else _flag(abilities.get("function_calling")),
        thinks="reasoning" in parameters if parameters else None,
    )


def _read_props(props: Mapping[str, Any]) -> Abilities:
    """Read llama.cpp's ``/props``. A template that has no place for tools drops them without a word."""
    return Abilities(
        _window(as_map(props.get("default_generation_settings")).get("n_ctx")),
        _flag(as_map(props.get("modalities")).get("vision")),
        _flag(as_map(props.get("chat_template_caps")).get("supports_tools")),
    )


def _ollama_names(model: str) -> tuple[str, str]:
    """Return the names by which Ollama lists a model."""
    return model, f"{model}:latest"


async def _ask_ollama(ask: Ask, root: str, model: str) -> Abilities:
    """Return the window of a loaded model, else what its file says. Ollama loads many with less."""
    loaded = [as_map(row) for row in as_list((await ask("GET", f"{root}/api/ps")).get("models"))]
    running = (row.get("context_length") for row in loaded if row.get("name") in _ollama_names(model))
    shown = await ask("POST", f"{root}/api/show", {"model": model})
    info = as_map(shown.get("model_info"))
    trained = next((_window(value) for name, value in info.items() if name.endswith(".context_length")), None)
    found = _NUM_CTX.search(as_text(shown.get("parameters")))
    window = _window(next(running, None)) or (_window(int(found[1])) if found else None) or trained
    if not (abilities := as_list(shown.get("capabilities"))):
        return Abilities(window)
    return Abilities(window, "vision" in abilities, "tools" in abilities, thinks="thinking" in abilities)


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _window(value: Any) -> int | None:
    return value if type(value) is int and _MIN_TOKENS <= value <= _MAX_TOKENS else None
