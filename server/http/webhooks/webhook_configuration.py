"""What a canvas says about its webhook: the parameters of its Begin, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, TypeAlias, cast

from msgspec import Struct

from ragflow_lg.base.errors import RequestError

__all__ = [
    "MAX_BODY_BYTES",
    "Anonymous",
    "BasicAuth",
    "JwtAuth",
    "RateLimit",
    "Security",
    "TokenAuth",
    "WebhookConfiguration",
    "find_webhook_params",
    "read_configuration",
]

MAX_BODY_BYTES = 10 * 1024 * 1024
"""Largest body, and what counts where a canvas says nothing."""

_UNITS = {"kb": 1024, "mb": 1024**2}
_PERIODS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_ALGORITHMS = frozenset(f"{kind}{size}" for kind in ("HS", "RS", "ES", "PS") for size in (256, 384, 512)) | {"EdDSA"}
_STANDARD_CLAIMS = frozenset({"exp", "sub", "aud", "iss", "nbf", "iat"})

Network: TypeAlias = IPv4Network | IPv6Network


class Anonymous(Struct, frozen=True):
    """Anybody may call."""


class TokenAuth(Struct, frozen=True):
    """A header holds a secret."""

    header: str
    value: str


class BasicAuth(Struct, frozen=True):
    """HTTP's Basic scheme."""

    username: str
    password: str


class JwtAuth(Struct, frozen=True):
    """A signed token. ``secret`` is the public key, in PEM, for algorithms that have one."""

    secret: str
    algorithm: str
    audience: tuple[str, ...]
    issuer: str
    required_claims: tuple[str, ...]


class RateLimit(Struct, frozen=True):
    """So many calls in so many seconds."""

    limit: int
    period_s: int


class Security(Struct, frozen=True):
    """Who may call."""

    auth: Anonymous | TokenAuth | BasicAuth | JwtAuth
    max_body_bytes: int = MAX_BODY_BYTES
    networks: tuple[Network, ...] | None = None
    """Addresses that may call; None for all."""
    rate: RateLimit | None = None


class WebhookConfiguration(Struct, frozen=True):
    """All of it."""

    security: Security
    methods: frozenset[str]
    """Empty for all."""
    content_type: str
    schema: Mapping[str, Any]
    is_immediate: bool
    status: int
    body_template: str


def find_webhook_params(dsl: Any) -> Mapping[str, Any]:
    """Find the parameters of the Begin that takes a webhook's calls.

    Raises:
        RequestError: if the canvas has none.
    """
    if not isinstance(dsl, dict):
        raise _refused("The canvas of the agent is no JSON object.")
    components: Any = cast("dict[str, Any]", dsl).get("components")
    for component in cast("dict[str, Any]", components).values() if isinstance(components, dict) else ():
        held = _map(component)
        obj = _map(held.get("obj")) or held
        params = _map(obj.get("params"))
        is_begin = str(obj.get("component_name", "")).lower() == "begin"
        if is_begin and str(params.get("mode", "")).lower() == "webhook":
            return params
    raise _refused("The agent takes no webhook: set the mode of its Begin to Webhook.")


def read_configuration(params: Mapping[str, Any]) -> WebhookConfiguration:
    """Read the parameters of a Begin.

    Raises:
        RequestError: if one is missing or wrong; the text names it, never a secret.
    """
    mode = params.get("execution_mode")
    response = _map_at("response", params.get("response"), '{"status": 200}')
    is_immediate = mode in (None, "", "Immediately")
    template: Any = response.get("body_template")
    return WebhookConfiguration(
        _security(params.get("security")),
        _methods(params.get("methods")),
        _content_type(params.get("content_types")),
        _map_at("schema", params.get("schema"), '{"body": {"properties": {"NAME": {"type": "string"}}}}'),
        is_immediate,
        _status(response.get("status")) if is_immediate else 200,
        template if isinstance(template, str) else "",
    )


def _methods(given: Any) -> frozenset[str]:
    if not given:
        return frozenset()
    names = cast("list[Any]", given) if isinstance(given, list) else str(given).split(",")
    return frozenset(str(name).strip().upper() for name in names if str(name).strip())


def _content_type(given: Any) -> str:
    if isinstance(given, list):
        given = cast("list[Any]", given)[0] if given else ""
    return given.partition(";")[0].strip().lower() if isinstance(given, str) else ""


def _status(given: Any) -> int:
    status = _whole(200 if given in (None, "") else given)
    if status is None or not 200 <= status <= 399:
        raise _refused("`response.status` should be a whole number from 200 to 399.")
    return status


def _security(given: Any) -> Security:
    settings = _map(given)
    if not settings:
        raise _refused("The webhook has no `security`; say in it who may call.")
    return Security(
        _auth(settings),
        _body_bytes(settings.get("max_body_size")),
        _networks(settings.get("ip_whitelist")),
        _rate(settings.get("rate_limit")),
    )


def _body_bytes(given: Any) -> int:
    if not given:
        return MAX_BODY_BYTES
    text = str(given).strip().lower()
    number, unit = text[:-2].strip(), _UNITS.get(text[-2:])
    if unit is None or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise _refused("`security.max_body_size` should be a number with kb or mb, such as 512kb.")
    size = int(number) * unit
    if not 0 < size <= MAX_BODY_BYTES:
        raise _refused("`security.max_body_size` is at most 10mb, and more than 0.")
    return size


def _networks(given: Any) -> tuple[Network, ...] | None:
    if not given:
        return None
    entries = cast("list[Any]", given) if isinstance(given, list) else str(given).split(",")
    try:
        found = tuple(ip_network(str(entry).strip(), strict=False) for entry in entries if str(entry).strip())
    except ValueError:
        raise _refused("`security.ip_whitelist` should hold addresses and networks, such as 203.0.113.0/24.") from None
    return found or None


def _rate(given: Any) -> RateLimit | None:
    if not given:
        return None
    settings = _map_at("security.rate_limit", given, '{"limit": 60, "per": "minute"}')
    limit = _whole(60 if settings.get("limit") in (None, "") else settings["limit"])
    period = _PERIODS_S.get(str(settings.get("per") or "minute").lower())
    if limit is None or not 0 < limit <= 1_000_000:
        raise _refused("`security.rate_limit.limit` should be a whole number from 1 to 1,000,000.")
    if period is None:
        raise _refused(f"`security.rate_limit.per` should be one of {', '.join(_PERIODS_S)}.")
    return RateLimit(limit, period)


def _auth(settings: Mapping[str, Any]) -> Anonymous | TokenAuth | BasicAuth | JwtAuth:
    kind = str(settings.get("auth_type") or "none").lower()
    if kind == "none":
        if not _is_true(settings.get("allow_anonymous")):
            raise _refused("The webhook asks for no authentication; `security.allow_anonymous` should say that it may.")
        return Anonymous()
    if kind == "token":
        held = _map(settings.get("token"))
        return TokenAuth(_text(held, "token.token_header"), _text(held, "token.token_value"))
    if kind == "basic":
        held = _map(settings.get("basic_auth"))
        return BasicAuth(_text(held, "basic_auth.username"), _text(held, "basic_auth.password"))
    if kind == "jwt":
        return _jwt(_map(settings.get("jwt")))
    raise _refused("`security.auth_type` should be one of none, token, basic, jwt.")


def _jwt(held: Mapping[str, Any]) -> JwtAuth:
    algorithm = str(held.get("algorithm") or "HS256")
    if algorithm not in _ALGORITHMS:
        raise _refused(f"`security.jwt.algorithm` should be one of {', '.join(sorted(_ALGORITHMS))}.")
    claims = _texts(held.get("required_claims"))
    if reserved := [claim for claim in claims if claim in _STANDARD_CLAIMS]:
        raise _refused(f"`security.jwt.required_claims` should not name {reserved[0]}: it is checked anyway.")
    issuer: Any = held.get("issuer")
    return JwtAuth(
        _text(held, "jwt.secret"),
        algorithm,
        _texts(held.get("audience")),
        issuer if isinstance(issuer, str) else "",
        claims,
    )


def _text(held: Mapping[str, Any], path: str) -> str:
    value: Any = held.get(path.rpartition(".")[2])
    if not isinstance(value, str) or not value.strip():
        raise _refused(f"`security.{path}` is not set.")
    return value


def _texts(given: Any) -> tuple[str, ...]:
    entries = cast("list[Any]", given) if isinstance(given, list) else str(given or "").split(",")
    return tuple(str(entry).strip() for entry in entries if str(entry).strip())


def _whole(given: Any) -> int | None:
    if isinstance(given, str) and given.strip().isascii() and given.strip().isdigit() and len(given) < 10:
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _is_true(given: Any) -> bool:
    return given.strip().lower() in ("true", "1", "yes", "on") if isinstance(given, str) else given in (True, 1)


def _map(given: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", given) if isinstance(given, dict) else {}


def _map_at(path: str, given: Any, example: str) -> Mapping[str, Any]:
    if given and not isinstance(given, dict):
        raise _refused(f"`{path}` should be an object, such as {example}.")
    return _map(given)


def _refused(message: str) -> RequestError:
    return RequestError(message, 400)
