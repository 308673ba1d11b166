"""QWeather: weather, life indices and air quality."""

from __future__ import annotations

from typing import Any, Literal

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.component.service_client import Service, open_service, read_label, read_text
from ragflow_lg.component.spec import ComponentParams, ToolResult, ToolService
from ragflow_lg.component.tool import Query, RunContext, TextOutputs, build_text_result, query_argument, tool
from ragflow_lg.services.http import HttpRequest

SERVICE = ToolService("QWeather", "qweather", "https://devapi.qweather.com", "required", "web_apikey")
PAID_ADDRESS = "https://api.qweather.com"
PLACES_URL = "https://geoapi.qweather.com/v2/city/lookup"

REASONS = {
    "204": "It has no data for this place.",
    "400": "A parameter is missing or wrong.",
    "401": "The key is wrong, or not a key for the web API.",
    "402": "The key's quota is used up, or its balance is too low.",
    "403": "The key does not give access to this data.",
    "404": "It does not know this place.",
    "429": "The key sends too many requests per minute.",
    "500": "The service has an internal error.",
}
"""Reasons by response code. Source: https://dev.qweather.com/en/docs/resource/status-code/"""

Language = Literal[
    "zh", "zh-hant", "en", "de", "es", "fr", "it", "ja", "ko", "ru", "hi", "th", "ar", "pt", "bn", "ms",
    "nl", "el", "la", "sv", "id", "pl", "tr", "cs", "et", "vi", "fil", "fi", "he", "is", "nb",
]  # fmt: skip


class Params(ComponentParams):
    """Parameters of QWeather."""

    web_apikey: str | None = ""
    """QWeather key; defaults to the key in ``[tools.qweather]`` in the settings."""
    lang: Language = "zh"
    type: Literal["weather", "indices", "airquality"] = "weather"
    user_type: Literal["free", "paid"] = "free"
    """The subscription, which decides the address."""
    time_period: Literal["now", "3d", "7d", "10d", "15d", "30d"] = "now"
    """For ``weather``: the current weather, or a forecast for so many days."""


@tool(
    "QWeather",
    unused=frozenset(["error_code"]),
    function="qweather",
    params=Params,
    arguments=query_argument("Name of a place, such as Beijing or 北京."),
    outputs=TextOutputs,
    effects="reads",
    description="Look up the weather, a forecast, life indices or the air quality at a place.",
    source="agent/tools/qweather.py",
    service=SERVICE,
)
async def qweather(ctx: RunContext, params: Params, arguments: Query) -> ToolResult:
    """Look up the place, then its data."""
    service = open_service(ctx, SERVICE, params.web_apikey)
    own_host = ctx.services.tools.endpoint(SERVICE.section, "")
    places_url = f"{own_host}/geo/v2/city/lookup" if own_host else PLACES_URL
    places = await _ask(ctx, service, places_url, {"location": arguments.query})
    rows = service.rows(places, "location", 1)
    if not rows:
        raise ServiceError(f"QWeather answered 404: {REASONS['404']}")
    base = own_host or (PAID_ADDRESS if params.user_type == "paid" else SERVICE.address)
    path = {"weather": f"weather/{params.time_period}", "indices": "indices/1d", "airquality": "air/now"}[params.type]
    query = {"location": read_label(rows[0], "id"), "lang": params.lang}
    if params.type == "indices":
        query["type"] = "0"
    answer = await _ask(ctx, service, f"{base}/v7/{path}", query)
    return build_text_result(_text(service, answer, params))


async def _ask(ctx: RunContext, service: Service, url: str, query: dict[str, str]) -> dict[str, Any]:
    """Send a request; QWeather reports most errors in the field ``code`` of a successful response."""
    request = HttpRequest("GET", url, {"X-QW-Api-Key": service.secret}, query, timeout_s=12.0)
    answer = await service.ask_json(ctx, request)
    code = read_label(answer, "code")[:20]
    if code != "200":
        reason = REASONS.get(code, "It gives no known reason.")
        raise ServiceError(
            f"QWeather answered {code or 'without a code'}: {reason}", is_retryable=code in ("429", "500")
        )
    return answer


def _text(service: Service, answer: dict[str, Any], params: Params) -> str:
    if params.type == "airquality" or (params.type == "weather" and params.time_period == "now"):
        now: Any = answer.get("now")
        return str(*service.rows({"now": [] if now is None else [now]}, "now", 1))
    days = service.rows(answer, "daily")
    if params.type == "weather":
        return "\n".join(map(str, days))
    lines = [f"{read_text(day, 'name')}: {read_text(day, 'category')}, {read_text(day, 'text')}" for day in days]
    return "\n".join([read_text(days[0], "date"), *lines]) if days else ""
