"""DeepL: translate text."""

from __future__ import annotations

from typing import Any

from pydantic import field_validator

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.service_client import open_service, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import Query, RunContext, TextOutputs, build_text_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest

FREE_ADDRESS = "https://api-free.deepl.com"
SERVICE = ToolService("DeepL", "deepl", "https://api.deepl.com", "required", "auth_key")

_SHARED = "AR BG CS DA DE EL ES ET FI FR HU ID IT JA KO LT LV NB NL PL RO RU SK SL SV TR UK ZH"
SOURCES = frozenset(_SHARED.split()) | {"EN", "PT"}
TARGETS = frozenset(_SHARED.split()) | {"EN-GB", "EN-US", "PT-BR", "PT-PT"}


class Params(ComponentParams):
    """Parameters of DeepL."""

    auth_key: str | None = ""
    """DeepL key; defaults to the key in ``[tools.deepl]`` in the settings. A key of DeepL API Free ends in ``:fx``."""
    source_lang: str = "ZH"
    """Language of the text, such as ZH or EN."""
    target_lang: str = "EN-GB"
    """Language of the translation, such as EN-GB, EN-US or DE."""

    @field_validator("source_lang", "target_lang")
    @classmethod
    def _is_language(cls, value: str, info: Any) -> str:
        languages = SOURCES if info.field_name == "source_lang" else TARGETS
        if value.upper() not in languages:
            raise ValueError(f"must be one of {', '.join(sorted(languages))}")
        return value.upper()


@tool(
    "DeepL",
    function="deepl_translate",
    params=Params,
    arguments=query_argument("The text to translate."),
    outputs=TextOutputs,
    effects="pays",
    description="Translate text into another language with DeepL.",
    source="agent/tools/deepl.py",
    service=SERVICE,
)
async def deepl(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Translate the text in one request."""
    service = open_service(ctx, SERVICE, params.auth_key, error_field="message")
    is_free = service.secret.endswith(":fx")
    address = ctx.services.tools.endpoint(SERVICE.section, FREE_ADDRESS if is_free else SERVICE.address)
    headers = {"Authorization": f"DeepL-Auth-Key {service.secret}"}
    body: JsonValue = {"text": [arguments.query], "source_lang": params.source_lang, "target_lang": params.target_lang}
    request = HttpRequest("POST", f"{address}/v2/translate", headers, json=body, timeout_s=12.0)
    rows = service.rows(await service.ask_json(ctx, request), "translations", 1)
    if not rows:
        raise ServiceError("DeepL answered without a translation.")
    return build_text_result(read_text(rows[0], "text"))
