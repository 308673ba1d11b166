"""Checks of webhook callers: address, body size, authentication, repetition and rate."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any

from msgspec import Struct

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl.webhook_configuration import BasicAuth, HmacAuth, JwtAuth, Security, TokenAuth

_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
MAX_TOKEN_CHARS = 16_384


_MAX_EXPIRE_S = 10**11
_SIGNATURE_LABEL = re.compile(r"[A-Za-z0-9]{1,10}=(?=.)")
"""What some senders write before a signature: ``sha256=``, ``v0=``. Base64 has nothing after its ``=`` but another."""

_REFUSAL = "The call is not authenticated."


class Delivery(Struct, frozen=True):
    """What identifies a call that is accepted only once, and the time until which it must be remembered."""

    digest: str
    expire_ms: int


async def check_caller(
    security: Security,
    headers: Mapping[str, str],
    host: str,
    read_body: Callable[[], Awaitable[bytes]],
    now_ms: int,
    *,
    is_owner: bool = False,
) -> Delivery | None:
    """Check who calls. The body is read only if its signature has to be checked.

    The names of the headers are in lower case. ``is_owner`` says that `Authorization` has an API key; then no other
    secret is expected there. Returns what identifies the call if it is accepted only once.
    """
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit():
        check_body_size(security, int(length[:20]))
    if security.networks is not None and not _is_allowed_address(security, host):
        raise RequestError("Calls from this address are not allowed.", 400)
    auth = security.auth
    if isinstance(auth, HmacAuth):
        return await _check_signature(auth, headers, read_body, now_ms)
    if isinstance(auth, JwtAuth):
        return None if is_owner else _check_jwt(headers.get("authorization", ""), auth)
    if not _is_authenticated(security, headers, is_owner=is_owner):
        raise RequestError(_REFUSAL, 400)
    return None


def _is_authenticated(security: Security, headers: Mapping[str, str], *, is_owner: bool) -> bool:
    auth = security.auth
    if isinstance(auth, TokenAuth):
        sent = headers.get(auth.header.lower(), "")
        return bool(auth.value) and hmac.compare_digest(_encode(sent), _encode(auth.value))
    return is_owner or not isinstance(auth, BasicAuth) or _check_basic(headers.get("authorization", ""), auth)


async def _check_signature(
    auth: HmacAuth, headers: Mapping[str, str], read_body: Callable[[], Awaitable[bytes]], now_ms: int
) -> Delivery:
    """Check the signature of the body. Everything that the headers tell is checked before the body is read."""
    signature = _decode_signature(headers.get(auth.header.lower(), ""), hashlib.new(auth.algorithm).digest_size)
    timestamp, start_ms = "", now_ms
    if auth.timestamp_header:
        timestamp = headers.get(auth.timestamp_header.lower(), "").strip()
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 11):
            raise RequestError(f"The header {auth.timestamp_header} must be the time in epoch seconds.", 400)
        start_ms = int(timestamp) * 1000
        if abs(now_ms - start_ms) > auth.window_s * 1000:
            raise RequestError(f"The call was signed more than {auth.window_s} s ago, or in the future.", 400)
    if signature is None or not auth.secret:
        raise RequestError(_REFUSAL, 400)
    head, _, tail = (_encode(part.replace("{timestamp}", timestamp)) for part in auth.signed.partition("{body}"))
    expected = hmac.digest(_encode(auth.secret), head + await read_body() + tail, auth.algorithm)
    if not hmac.compare_digest(signature, expected):
        raise RequestError(_REFUSAL, 400)
    return Delivery(hashlib.sha256(b"signature\0" + expected).hexdigest(), start_ms + auth.window_s * 1000)


def _decode_signature(text: str, size: int) -> bytes | None:
    """Return a signature of ``size`` bytes written in hex or base64, with or without a label; None for other texts."""
    text = text.strip()
    text = text.removeprefix(label[0]) if (label := _SIGNATURE_LABEL.match(text)) else text
    try:
        signature = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return signature if len(signature) == size else None


def check_body_size(security: Security, size: int) -> None:
    """Check the size of a body."""
    if size > security.max_body_bytes:
        raise RequestError(f"The body is larger than {security.max_body_bytes:,} bytes.", 400)


def is_secret_header(name: str, security: Security) -> bool:
    """Return whether a header contains a secret and must be hidden from the canvas."""
    auth = security.auth
    is_auth = isinstance(auth, TokenAuth | HmacAuth) and name.lower() == auth.header.lower()
    return is_auth or name.lower() in _SECRET_HEADERS


def _is_allowed_address(security: Security, host: str) -> bool:
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return any(ip.version == network.version and ip in network for network in security.networks or ())


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _check_basic(header: str, auth: BasicAuth) -> bool:
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "basic" or len(rest) > MAX_TOKEN_CHARS:
        return False
    try:
        name, colon, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return False
    is_name = hmac.compare_digest(name, _encode(auth.username))
    is_password = hmac.compare_digest(password, _encode(auth.password))
    return bool(colon) and is_name and is_password


def _check_jwt(header: str, auth: JwtAuth) -> Delivery | None:
    """Check a signed token with the canvas's algorithm; the algorithm in the token is ignored.

    Returns:
        What identifies the token if it is accepted only once.
    """
    import jwt

    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or len(token) > MAX_TOKEN_CHARS:
        raise RequestError(_REFUSAL, 400)
    options: Any = {
        "verify_aud": bool(auth.audience),
        "verify_iss": bool(auth.issuer),
        "require": [*(["aud"] if auth.audience else []), *(["iss"] if auth.issuer else [])],
    }
    if auth.must_expire or auth.is_single_use:
        options["require"] += ["exp"]
    if auth.is_single_use:
        options["require"] += ["jti"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the canvas may choose a short secret
            claims: dict[str, Any] = jwt.decode(
                token.strip(),
                auth.secret,
                algorithms=[auth.algorithm],
                audience=list(auth.audience) or None,
                issuer=auth.issuer or None,
                options=options,
            )
    except jwt.ExpiredSignatureError:
        raise RequestError("The token of the call has expired.", 400) from None
    except jwt.MissingRequiredClaimError as error:
        if error.claim != "exp":
            raise RequestError(_REFUSAL, 400) from None
        text = (
            "The token of the call never expires: it needs the claim `exp`, or set `security.jwt.require_exp` to false."
        )
        raise RequestError(text, 400) from None
    except (jwt.InvalidKeyError, NotImplementedError):
        raise RequestError(f"`security.jwt.secret` is not a key for {auth.algorithm}.", 400) from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
        raise RequestError(_REFUSAL, 400) from None
    if any(claims.get(claim) in (None, "") for claim in auth.required_claims):
        raise RequestError(_REFUSAL, 400)
    return _identify_token(claims) if auth.is_single_use else None


def _identify_token(claims: Mapping[str, Any]) -> Delivery:
    """Return what identifies a token until it expires."""
    token_id: Any = claims["jti"]
    if not isinstance(token_id, str) or not token_id:
        raise RequestError(_REFUSAL, 400)
    issuer = _encode(str(claims.get("iss", "")))
    digest = hashlib.sha256(b"token\0" + issuer + b"\0" + _encode(token_id)).hexdigest()
    return Delivery(digest, min(int(claims["exp"]), _MAX_EXPIRE_S) * 1000)
