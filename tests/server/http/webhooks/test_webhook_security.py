import base64
import json
from ipaddress import ip_network
from typing import Any

import jwt
import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.webhooks.webhook_configuration import (
    Anonymous,
    BasicAuth,
    JwtAuth,
    RateLimit,
    Security,
    TokenAuth,
    read_configuration,
)
from ragflow_lg.server.http.webhooks.webhook_security import check_body_size, check_caller, is_secret_header

SECRET = "s" * 40
JWT = JwtAuth(SECRET, "HS256", ("shop",), "us", ("role",), must_expire=False)
CLAIMS = {"aud": "shop", "iss": "us", "role": "admin"}


async def never(_: RateLimit) -> float:
    raise AssertionError


async def check(security: Security, headers: dict[str, str] | None = None, host: str = "203.0.113.7") -> None:
    await check_caller(security, headers or {}, host, never)


async def refused(security: Security, headers: dict[str, str] | None = None, host: str = "203.0.113.7") -> str:
    with pytest.raises(RequestError) as caught:
        await check(security, headers, host)
    assert caught.value.number == 400
    return str(caught.value)


async def test_bodies_with_a_large_declared_length_are_refused() -> None:
    security = Security(Anonymous(), max_body_bytes=10)
    await check(security, {"content-length": "10"})
    assert "larger" in await refused(security, {"content-length": "11"})
    await check(security, {"content-length": "x"})
    with pytest.raises(RequestError):
        check_body_size(security, 11)


async def test_only_listed_addresses_are_allowed() -> None:
    security = Security(Anonymous(), networks=(ip_network("203.0.113.0/24"), ip_network("2001:db8::/32")))
    for host in ("203.0.113.7", "2001:db8::1", "::ffff:203.0.113.7", "2001:db8::1%eth0"):
        await check(security, host=host)
    for host in ("203.0.114.1", "::1", "", "localhost", "203.0.113.7, 1.1.1.1", "::ffff:10.0.0.1"):
        assert "address" in await refused(security, {"x-forwarded-for": "203.0.113.7"}, host)


async def test_too_many_calls_are_refused_with_the_time_to_wait() -> None:
    calls: list[RateLimit] = []

    async def take(rate: RateLimit) -> float:
        calls.append(rate)
        return 30.0 if len(calls) > 1 else 0.0

    security = Security(Anonymous(), rate=RateLimit(1, 60))
    await check_caller(security, {}, "", take)
    with pytest.raises(RequestError, match="in 30 s"):
        await check_caller(security, {}, "", take)


async def test_calls_without_the_secret_do_not_count() -> None:
    for auth in (TokenAuth("X-Token", "secret"), BasicAuth("user", "secret"), JWT):
        security = Security(auth, rate=RateLimit(1, 60))
        assert await refused(security) == "The call is not authenticated."


async def test_only_the_exact_token_is_accepted() -> None:
    security = Security(TokenAuth("X-Token", "sécret"))
    await check(security, {"x-token": "sécret"})
    for headers in ({}, {"x-token": ""}, {"x-token": "sécre"}, {"authorization": "sécret"}, {"x-token": "SÉCRET"}):
        assert await refused(security, headers) == "The call is not authenticated."
    assert await refused(Security(TokenAuth("X-Token", "")), {"x-token": ""})


async def test_only_the_exact_name_and_password_are_accepted() -> None:
    security = Security(BasicAuth("user", "pass:wörd"))

    def basic(text: str) -> dict[str, str]:
        return {"authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}

    await check(security, basic("user:pass:wörd"))
    for headers in (
        {},
        basic("user:pass"),
        basic("user"),
        basic(":"),
        {"authorization": "Basic %%%"},
        {"authorization": "Basic"},
        {"authorization": f"Bearer {basic('user:pass:wörd')['authorization'][6:]}"},
        {"authorization": "Basic " + "A" * 20_000},
    ):
        assert await refused(security, headers) == "The call is not authenticated."


def bearer(claims: dict[str, Any], key: Any = SECRET, algorithm: str = "HS256") -> dict[str, str]:
    return {"authorization": f"Bearer {jwt.encode(claims, key, algorithm=algorithm)}"}


def forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> dict[str, str]:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return {"authorization": "Bearer " + ".".join(base64.urlsafe_b64encode(p).rstrip(b"=").decode() for p in parts)}


async def test_signed_tokens_are_checked() -> None:
    await check(Security(JWT), bearer(CLAIMS))
    await check(Security(JWT), bearer({**CLAIMS, "aud": ["other", "shop"], "exp": 9_999_999_999}))
    await check(Security(JwtAuth(SECRET, "HS256", (), "", (), must_expire=False)), bearer({"aud": "any", "iss": "any"}))
    assert "expired" in await refused(Security(JWT), bearer({**CLAIMS, "exp": 1}))
    for headers in (
        {},
        {"authorization": "Bearer "},
        {"authorization": "Bearer a.b.c"},
        {"authorization": bearer(CLAIMS)["authorization"][7:]},
        {"authorization": "Bearer " + "a" * 20_000},
        bearer({**CLAIMS, "aud": "other"}),
        bearer({**CLAIMS, "iss": "them"}),
        bearer({"aud": "shop", "iss": "us"}),
        bearer({**CLAIMS, "role": ""}),
        bearer({**CLAIMS, "nbf": 9_999_999_999}),
        bearer({"iss": "us", "role": "admin"}),
        bearer(CLAIMS, "t" * 40),
        bearer(CLAIMS, SECRET * 2, "HS512"),
        bearer(CLAIMS, SECRET * 2, "HS384"),
        forged({"alg": "none", "typ": "JWT"}, CLAIMS),
        forged({"alg": "None"}, CLAIMS),
        forged({"alg": "HS256"}, CLAIMS),
        forged({"alg": "HS256", "jku": "http://evil.example", "kid": "../../dev/null"}, CLAIMS, b"x"),
        forged({"alg": ["HS256"]}, CLAIMS),
    ):
        assert await refused(Security(JWT), headers) == "The call is not authenticated.", headers


async def test_tokens_must_expire_unless_that_is_switched_off() -> None:
    def security(**fields: Any) -> Security:
        document = {"auth_type": "jwt", "jwt": {"secret": SECRET, **fields}}
        return read_configuration({"security": document}).security

    named: list[dict[str, Any]] = [
        {},
        {"require_exp": None},
        {"required_claims": ["exp"]},
        {"required_claims": "exp", "require_exp": False},
    ]
    for fields in named:
        assert "needs the claim `exp`" in await refused(security(**fields), bearer({"a": 1}))
        assert "not authenticated" in await refused(security(**fields), bearer({"a": 1}, "t" * 40))
        await check(security(**fields), bearer({"a": 1, "exp": 9_999_999_999}))
    await check(security(require_exp=False), bearer({"a": 1}))
    assert "expired" in await refused(security(require_exp=False), bearer({"a": 1, "exp": 1}))


async def test_a_public_key_is_not_accepted_as_a_secret() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = private.public_key().public_bytes(serialization.Encoding.PEM, form).decode()
    auth = JwtAuth(public, "ES256", (), "", (), must_expire=False)
    await check(Security(auth), bearer({"a": 1}, private, "ES256"))
    import hashlib
    import hmac

    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part({"a": 1})
    mark = base64.urlsafe_b64encode(hmac.new(public.encode(), signed, hashlib.sha256).digest()).rstrip(b"=")
    headers = {"authorization": f"Bearer {(signed + b'.' + mark).decode()}"}
    assert await refused(Security(auth), headers) == "The call is not authenticated."
    as_secret = Security(JwtAuth(public, "HS256", (), "", ()))
    assert "is not a key for HS256" in await refused(as_secret, headers)
    wrong = Security(JwtAuth("no PEM", "ES256", (), "", ()))
    assert await refused(wrong, bearer({"a": 1}, private, "ES256"))


async def test_the_owner_needs_no_second_authorization() -> None:
    for auth in (JWT, BasicAuth("u", "p")):
        await check_caller(Security(auth), {"authorization": "Bearer key"}, "", never, is_owner=True)
    with pytest.raises(RequestError, match="not authenticated"):
        await check_caller(Security(TokenAuth("X-Token", "v")), {}, "", never, is_owner=True)


def test_headers_with_secrets_are_recognized() -> None:
    security = Security(TokenAuth("X-Token", "v"))
    assert [is_secret_header(name, security) for name in ("x-TOKEN", "Authorization", "cookie", "x-event")] == [
        True,
        True,
        True,
        False,
    ]
