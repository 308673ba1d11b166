"""A canvas's webhook configuration: the parameters of its Begin component, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, TypeAlias, cast

from msgspec import Struct

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.lenient_values import as_text

MAX_BODY_BYTES = 10 * 1024 * 1024
"""Maximum body size, and the default limit."""

_UNITS = {"kb": 1024, "mb": 1024**2}
_PERIODS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_ALGORITHMS = frozenset(f"{kind}{size}" for kind in ("HS", "RS", "ES", "PS") for size in (256, 384, 512)) | {"EdDSA"}
_DIGESTS = ("sha256", "sha384", "sha512", "sha1")
_SIGNED_WINDOW_S, _UNSIGNED_WINDOW_S, _MAX_WINDOW_S = 300, 86_400, 30 * 86_400
_BODY, _TIMESTAMP = "{body}", "{timestamp}"
_STANDARD_CLAIMS = frozenset({"sub", "aud", "iss", "nbf", "iat"})

Network: TypeAlias = IPv4Network | IPv6Network


class Anonymous(Struct, frozen=True):
    """No authentication."""


class TokenAuth(Struct, frozen=True):
    """Authentication with a secret in a header."""

    header: str
    value: str


class BasicAuth(Struct, frozen=True):
    """HTTP Basic authentication."""

    username: str
    password: str


class JwtAuth(Struct, frozen=True):
    """Authentication with a signed token. For asymmetric algorithms, ``secret`` is the public key in PEM format."""

    secret: str
    algorithm: str
    audience: tuple[str, ...]
    issuer: str
    required_claims: tuple[str, ...]
    must_expire: bool = True
    """Whether a token without the claim ``exp`` is refused."""
    is_single_use: bool = False
    """Whether a token, by its claim ``jti``, is accepted only once."""


class HmacAuth(Struct, frozen=True):
    """Authentication with a signature of the body. The same signature is accepted only once."""

    secret: str
    header: str
    algorithm: str
    timestamp_header: str
    """The header with the time in epoch seconds, or ``""`` if no time is signed."""
    signed: str
    """What is signed: a text with ``{body}`` and, if a time is signed, ``{timestamp}``."""
    window_s: int
    """How far the signed time may be from the current one, or how long signatures without a time are remembered."""


Auth: TypeAlias = Anonymous | TokenAuth | BasicAuth | JwtAuth | HmacAuth


class RateLimit(Struct, frozen=True):
    """Maximum number of calls in a period."""

    limit: int
    period_s: int


class Security(Struct, frozen=True):
    """The restrictions on callers."""

    auth: Auth
    max_body_bytes: int = MAX_BODY_BYTES
    networks: tuple[Network, ...] | None = None
    """Addresses that are allowed to call; None for all."""
    rate: RateLimit | None = None


class WebhookConfiguration(Struct, frozen=True):
    """The configuration of a webhook."""

    security: Security
    methods: frozenset[str]
    """Allowed methods; empty for all."""
    content_type: str
    schema: Mapping[str, Any]
    is_immediate: bool
    status: int
    body_template: str
    layout_recognize: str = ""
    """The parser of sent files."""


def find_webhook_params(dsl: Any) -> Mapping[str, Any]:
    """Return the parameters of the Begin component in webhook mode.

    Raises:
        RequestError: if the canvas has none.
    """
    if not isinstance(dsl, dict):
        raise _build_refusal("The canvas of the agent is not a JSON object.")
    components: Any = cast("dict[str, Any]", dsl).get("components")
    for component in cast("dict[str, Any]", components).values() if isinstance(components, dict) else ():
        fields = as_mapping(component)
        obj = as_mapping(fields.get("obj")) or fields
        params = as_mapping(obj.get("params"))
        is_begin = str(obj.get("component_name", "")).lower() == "begin"
        if is_begin and str(params.get("mode", "")).lower() == "webhook":
            return params
    raise _build_refusal("The agent has no webhook: set the mode of its Begin to Webhook.")


def read_configuration(params: Mapping[str, Any]) -> WebhookConfiguration:
    """Parse the parameters of a Begin component.

    Raises:
        RequestError: if a parameter is missing or invalid; the message names it and never contains a secret.
    """
    mode = params.get("execution_mode")
    response = _read_mapping("response", params.get("response"), '{"status": 200}')
    is_immediate = mode in (None, "", "Immediately")
    template: Any = response.get("body_template")
    return WebhookConfiguration(
        _parse_security(params.get("security")),
        frozenset(name.upper() for name in _split_texts(params.get("methods"))),
        _parse_content_type(params.get("content_types")),
        _read_mapping("schema", params.get("schema"), '{"body": {"properties": {"NAME": {"type": "string"}}}}'),
        is_immediate,
        _parse_status(response.get("status")) if is_immediate else 200,
        template if isinstance(template, str) else "",
        as_text(params.get("layout_recognize")),
    )


def webhook_findings(params: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding if the webhook of a Begin component would refuse every call, for example without a secret."""
    try:
        read_configuration(params)
    except RequestError as error:
        hint = "The server refuses every call until this is set right, in the Begin node of RAGFlow's editor."
        yield Finding("webhook-closed", "warning", _locate(str(error), params) or ("security",), str(error), hint)


def _locate(message: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the path of the parameter that a message names, as far as the parameters have it."""
    _, _, rest = message.partition("`")
    path: list[str] = []
    fields = params
    for name in rest.partition("`")[0].split("."):
        if name not in fields:
            break
        path.append(name)
        fields = as_mapping(fields[name])
    return tuple(path)


def _parse_content_type(value: Any) -> str:
    if isinstance(value, list):
        value = cast("list[Any]", value)[0] if value else ""
    return value.partition(";")[0].strip().lower() if isinstance(value, str) else ""


def _parse_status(value: Any) -> int:
    status = _parse_int(200 if value in (None, "") else value)
    if status is None or not 200 <= status <= 399:
        raise _build_refusal("`response.status` must be a whole number from 200 to 399.")
    return status


def _parse_security(value: Any) -> Security:
    settings = as_mapping(value)
    if not settings:
        raise _build_refusal("The webhook has no `security`: add it to say who may call.")
    return Security(
        _parse_auth(settings),
        _parse_body_bytes(settings.get("max_body_size")),
        _parse_networks(settings.get("ip_whitelist")),
        _parse_rate(settings.get("rate_limit")),
    )


def _parse_body_bytes(value: Any) -> int:
    if not value:
        return MAX_BODY_BYTES
    text = str(value).strip().lower()
    number, unit = text[:-2].strip(), _UNITS.get(text[-2:])
    if unit is None or not (number.isascii() and number.isdigit() and len(number) < 10):
        raise _build_refusal("`security.max_body_size` must be a number with kb or mb, such as 512kb.")
    size = int(number) * unit
    if not 0 < size <= MAX_BODY_BYTES:
        raise _build_refusal("`security.max_body_size` must be more than 0 and at most 10mb.")
    return size


def _parse_networks(value: Any) -> tuple[Network, ...] | None:
    try:
        networks = tuple(ip_network(entry, strict=False) for entry in _split_texts(value))
    except ValueError:
        raise _build_refusal(
            "`security.ip_whitelist` must contain addresses and networks, such as 203.0.113.0/24."
        ) from None
    return networks or None


def _parse_rate(value: Any) -> RateLimit | None:
    if not value:
        return None
    settings = _read_mapping("security.rate_limit", value, '{"limit": 60, "per": "minute"}')
    limit = _parse_int(60 if settings.get("limit") in (None, "") else settings["limit"])
    period = _PERIODS_S.get(str(settings.get("per") or "minute").lower())
    if limit is None or not 0 < limit <= 1_000_000:
        raise _build_refusal("`security.rate_limit.limit` must be a whole number from 1 to 1,000,000.")
    if period is None:
        raise _build_refusal(f"`security.rate_limit.per` must be one of {', '.join(_PERIODS_S)}.")
    return RateLimit(limit, period)


def _parse_auth(settings: Mapping[str, Any]) -> Auth:
    kind = str(settings.get("auth_type") or "none").lower()
    if kind == "none":
        if not _is_true(settings.get("allow_anonymous")):
            raise _build_refusal(
                "The webhook has no authentication: set `security.allow_anonymous` to true, or `security.auth_type`."
            )
        return Anonymous()
    if kind == "token":
        fields = as_mapping(settings.get("token"))
        return TokenAuth(_read_text(fields, "token.token_header"), _read_text(fields, "token.token_value"))
    if kind == "basic":
        fields = as_mapping(settings.get("basic_auth"))
        return BasicAuth(_read_text(fields, "basic_auth.username"), _read_text(fields, "basic_auth.password"))
    if kind == "jwt":
        return _parse_jwt(as_mapping(settings.get("jwt")))
    if kind == "hmac":
        return _parse_hmac(as_mapping(settings.get("hmac")))
    raise _build_refusal("`security.auth_type` must be one of none, token, basic, jwt, hmac.")


def _parse_jwt(fields: Mapping[str, Any]) -> JwtAuth:
    algorithm = str(fields.get("algorithm") or "HS256")
    if algorithm not in _ALGORITHMS:
        raise _build_refusal(f"`security.jwt.algorithm` must be one of {', '.join(sorted(_ALGORITHMS))}.")
    claims = _split_texts(fields.get("required_claims"))
    if reserved := [claim for claim in claims if claim in _STANDARD_CLAIMS]:
        raise _build_refusal(f"`security.jwt.required_claims` must not name {reserved[0]}, which is always checked.")
    issuer: Any = fields.get("issuer")
    return JwtAuth(
        _read_text(fields, "jwt.secret"),
        algorithm,
        _split_texts(fields.get("audience")),
        issuer if isinstance(issuer, str) else "",
        tuple(claim for claim in claims if claim != "exp"),
        "exp" in claims or not _is_false(fields.get("require_exp")),
        _is_true(fields.get("single_use")),
    )


def _parse_hmac(fields: Mapping[str, Any]) -> HmacAuth:
    algorithm = str(fields.get("algorithm") or "sha256").lower()
    if algorithm not in _DIGESTS:
        raise _build_refusal(f"`security.hmac.algorithm` must be one of {', '.join(_DIGESTS)}.")
    timestamp_header = str(fields.get("timestamp_header") or "").strip()
    signed = str(fields.get("signed") or (f"{_TIMESTAMP}.{_BODY}" if timestamp_header else _BODY))
    if signed.count(_BODY) != 1:
        raise _build_refusal("`security.hmac.signed` must contain {body} once.")
    if (_TIMESTAMP in signed) is not bool(timestamp_header):
        raise _build_refusal(
            "`security.hmac.signed` must contain {timestamp} if, and only if, `security.hmac.timestamp_header` is set."
        )
    default_s = _SIGNED_WINDOW_S if timestamp_header else _UNSIGNED_WINDOW_S
    window_s = _parse_int(default_s if fields.get("window_s") in (None, "") else fields["window_s"])
    if window_s is None or not 0 < window_s <= _MAX_WINDOW_S:
        raise _build_refusal(f"`security.hmac.window_s` must be a whole number from 1 to {_MAX_WINDOW_S:,}.")
    header = str(fields.get("header") or "X-Hub-Signature-256").strip()
    return HmacAuth(_read_text(fields, "hmac.secret"), header, algorithm, timestamp_header, signed, window_s)


def _read_text(fields: Mapping[str, Any], path: str) -> str:
    value: Any = fields.get(path.rpartition(".")[2])
    if not isinstance(value, str) or not value.strip():
        raise _build_refusal(f"`security.{path}` is not set.")
    return value


def _split_texts(value: Any) -> tuple[str, ...]:
    entries = cast("list[Any]", value) if isinstance(value, list) else str(value or "").split(",")
    return tuple(str(entry).strip() for entry in entries if str(entry).strip())


def _parse_int(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_true(value: Any) -> bool:
    return value.strip().lower() in ("true", "1", "yes", "on") if isinstance(value, str) else value in (True, 1)


def _is_false(value: Any) -> bool:
    return str(value).strip().lower() in ("false", "0", "no", "off")


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a map, or an empty one for any other value."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _read_mapping(path: str, value: Any, example: str) -> Mapping[str, Any]:
    if value and not isinstance(value, dict):
        raise _build_refusal(f"`{path}` must be an object, such as {example}.")
    return as_mapping(value)


def _build_refusal(message: str) -> RequestError:
    return RequestError(message, 400)
