"""Checks of webhook callers: address, body size, authentication and rate."""

from __future__ import annotations

import base64
import binascii
import hmac
import warnings
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.webhooks.webhook_configuration import BasicAuth, JwtAuth, RateLimit, Security, TokenAuth

_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
MAX_TOKEN_CHARS = 16_384


async def check_caller(
    security: Security,
    headers: Mapping[str, str],
    host: str,
    take_call: Callable[[RateLimit], Awaitable[float]],
    *,
    is_owner: bool = False,
) -> None:
    """Check whether a call is allowed.

    Args:
        security: The webhook's security configuration.
        headers: Headers by lower-case name.
        host: The caller's address.
        take_call: Counts a call and returns the seconds to wait, or 0 if the call is allowed.
        is_owner: Whether the caller has sent an API key in `Authorization`; then no other secret is expected there.

    Raises:
        RequestError: if the call is refused. The message does not reveal how close a wrong secret was.
    """
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit():
        check_body_size(security, int(length[:20]))
    if security.networks is not None and not _is_allowed_address(security, host):
        raise RequestError("Calls from this address are not allowed.", 400)
    if not _is_authenticated(security, headers, is_owner=is_owner):
        raise RequestError("The call is not authenticated.", 400)
    # Counted last: otherwise callers without the secret could exhaust the limit.
    if security.rate is not None and (wait_s := await take_call(security.rate)) > 0:
        raise RequestError(f"Too many calls; try again in {wait_s:.0f} s.", 400)


def _is_authenticated(security: Security, headers: Mapping[str, str], *, is_owner: bool) -> bool:
    auth = security.auth
    if isinstance(auth, TokenAuth):
        return _is_equal(headers.get(auth.header.lower(), ""), auth.value)
    if is_owner or not isinstance(auth, BasicAuth | JwtAuth):
        return True
    header = headers.get("authorization", "")
    return _check_basic(header, auth) if isinstance(auth, BasicAuth) else _check_jwt(header, auth)


def check_body_size(security: Security, size: int) -> None:
    """Check the size of a body.

    Raises:
        RequestError: if the body is too large.
    """
    if size > security.max_body_bytes:
        raise RequestError(f"The body is larger than {security.max_body_bytes:,} bytes.", 400)


def is_secret_header(name: str, security: Security) -> bool:
    """Return whether a header contains a secret and must be hidden from the canvas."""
    is_token = isinstance(security.auth, TokenAuth) and name.lower() == security.auth.header.lower()
    return is_token or name.lower() in _SECRET_HEADERS


def _is_allowed_address(security: Security, host: str) -> bool:
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return any(ip.version == network.version and ip in network for network in security.networks or ())


def _is_equal(value: str, secret: str) -> bool:
    return bool(secret) and hmac.compare_digest(_encode(value), _encode(secret))


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


def _check_jwt(header: str, auth: JwtAuth) -> bool:
    """Check a signed token with the canvas's algorithm; the algorithm in the token is ignored.

    Raises:
        RequestError: if the token has expired, or the configured key is not suitable for the algorithm.
    """
    import jwt

    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or len(token) > MAX_TOKEN_CHARS:
        return False
    options: Any = {
        "verify_aud": bool(auth.audience),
        "verify_iss": bool(auth.issuer),
        "require": [*(["aud"] if auth.audience else []), *(["iss"] if auth.issuer else [])],
    }
    if auth.must_expire:
        options["require"] += ["exp"]
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
            return False
        text = (
            "The token of the call never expires: it needs the claim `exp`, or set `security.jwt.require_exp` to false."
        )
        raise RequestError(text, 400) from None
    except (jwt.InvalidKeyError, NotImplementedError):
        raise RequestError(f"`security.jwt.secret` is not a key for {auth.algorithm}.", 400) from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return False
    return all(claims.get(claim) not in (None, "") for claim in auth.required_claims)
