"""Who may call a webhook: the address, the size of the body, the rate, and what the caller shows."""

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

__all__ = ["check_body_size", "check_caller", "is_secret_header"]

_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
MAX_TOKEN_CHARS = 16_384


async def check_caller(
    security: Security,
    headers: Mapping[str, str],
    host: str,
    take: Callable[[RateLimit], Awaitable[float]],
    *,
    is_owner: bool = False,
) -> None:
    """Let a call pass or not. ``take`` counts one more, and gives how many seconds to wait until it may be made, or 0.

    ``headers`` are looked up by names in lower case; ``host`` is the address of the caller. Of the owner, who has shown
    an API key in the header ``Authorization``, nothing else is asked that would have to stand there.

    Raises:
        RequestError: if it is refused. The text does not say how near a wrong secret was.
    """
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit():
        check_body_size(security, int(declared[:20]))
    if security.networks is not None and not _is_listed(security, host):
        raise RequestError("Calls from this address are not taken.", 400)
    if not _is_known(security, headers, is_owner=is_owner):
        raise RequestError("The call is not authenticated.", 400)
    # Only now: else whoever has no secret could use up the calls of those who have.
    if security.rate is not None and (wait_s := await take(security.rate)) > 0:
        raise RequestError(f"Too many calls; try again in {wait_s:.0f} s.", 400)


def _is_known(security: Security, headers: Mapping[str, str], *, is_owner: bool) -> bool:
    auth = security.auth
    if isinstance(auth, TokenAuth):
        return _equal(headers.get(auth.header.lower(), ""), auth.value)
    if is_owner or not isinstance(auth, BasicAuth | JwtAuth):
        return True
    header = headers.get("authorization", "")
    return _is_basic(header, auth) if isinstance(auth, BasicAuth) else _check_jwt(header, auth)


def check_body_size(security: Security, size: int) -> None:
    """Refuse a body that is too large.

    Raises:
        RequestError: if it is.
    """
    if size > security.max_body_bytes:
        raise RequestError(f"The body is larger than {security.max_body_bytes:,} bytes.", 400)


def is_secret_header(name: str, security: Security) -> bool:
    """Tell whether a header authenticates, and is no business of the canvas."""
    is_token = isinstance(security.auth, TokenAuth) and name.lower() == security.auth.header.lower()
    return is_token or name.lower() in _SECRET_HEADERS


def _is_listed(security: Security, host: str) -> bool:
    try:
        ip = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return any(ip.version == network.version and ip in network for network in security.networks or ())


def _equal(given: str, wanted: str) -> bool:
    return bool(wanted) and hmac.compare_digest(_bytes(given), _bytes(wanted))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_basic(header: str, auth: BasicAuth) -> bool:
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != "basic" or len(rest) > MAX_TOKEN_CHARS:
        return False
    try:
        name, colon, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return False
    is_name = hmac.compare_digest(name, _bytes(auth.username))
    is_password = hmac.compare_digest(password, _bytes(auth.password))
    return bool(colon) and is_name and is_password


def _check_jwt(header: str, auth: JwtAuth) -> bool:
    """Check a signed token. Only the algorithm of the canvas counts, whatever the token says.

    Raises:
        RequestError: if the token is old, or the key of the canvas does not fit its algorithm.
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a short secret is the canvas's choice
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
    except (jwt.InvalidKeyError, NotImplementedError):
        raise RequestError(f"`security.jwt.secret` is no key for {auth.algorithm}.", 400) from None
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return False
    return all(claims.get(claim) not in (None, "") for claim in auth.required_claims)
