import base64
import hashlib
import hmac
import json
from ipaddress import ip_network
from typing import Any

import jwt
import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl.webhook_configuration import (
    Anonymous,
    BasicAuth,
    HmacAuth,
    JwtAuth,
    Security,
    TokenAuth,
    read_configuration,
)
from ragflow_lg.server.http.webhooks.webhook_security import Delivery, check_body_size, check_caller, is_secret_header

SECRET = "s" * 40
JWT = JwtAuth(SECRET, "HS256", ("shop",), "us", ("role",), must_expire=False)
CLAIMS = {"aud": "shop", "iss": "us", "role": "admin"}


NOW_MS = 1_700_000_000_500


async def never() -> bytes:
    raise AssertionError


async def check(
    security: Security, headers: dict[str, str] | None = None, host: str = "203.0.113.7", body: bytes | None = None
) -> Delivery | None:
    async def read() -> bytes:
        return await never() if body is None else body

    return await check_caller(security, headers or {}, host, read, NOW_MS)


async def refused(
    security: Security, headers: dict[str, str] | None = None, host: str = "203.0.113.7", body: bytes | None = None
) -> str:
    with pytest.raises(RequestError) as caught:
        await check(security, headers, host, body)
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
        return read_configuration({"security": {"auth_type": "jwt", "jwt": {"secret": SECRET, **fields}}}).security

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

    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    signed = part({"alg": "HS256", "typ": "JWT"}) + b"." + part({"a": 1})
    mark = base64.urlsafe_b64encode(hmac.new(public.encode(), signed, hashlib.sha256).digest()).rstrip(b"=")
    headers = {"authorization": f"Bearer {(signed + b'.' + mark).decode()}"}
    assert await refused(Security(auth), headers) == "The call is not authenticated."
    assert "is not a key for HS256" in await refused(Security(JwtAuth(public, "HS256", (), "", ())), headers)
    assert await refused(Security(JwtAuth("no PEM", "ES256", (), "", ())), bearer({"a": 1}, private, "ES256"))


async def test_the_owner_needs_no_second_authorization() -> None:
    for auth in (JWT, BasicAuth("u", "p")):
        await check_caller(Security(auth), {"authorization": "Bearer key"}, "", never, NOW_MS, is_owner=True)
    with pytest.raises(RequestError, match="not authenticated"):
        await check_caller(Security(TokenAuth("X-Token", "v")), {}, "", never, NOW_MS, is_owner=True)


BODY = '{"zen": "ä"}'.encode()


def signed_by(**fields: Any) -> Security:
    return read_configuration({"security": {"auth_type": "hmac", "hmac": {"secret": SECRET, **fields}}}).security


def sign(body: bytes = BODY, secret: str = SECRET, algorithm: str = "sha256") -> bytes:
    return hmac.new(secret.encode(), body, algorithm).digest()


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512"])
async def test_signatures_are_hex_or_base64_with_or_without_a_label(algorithm: str) -> None:
    signature = sign(algorithm=algorithm)
    encoded = base64.b64encode(signature).decode()
    digests: set[str] = set()
    for text in (signature.hex(), f"{algorithm}={signature.hex()}", f"v0={signature.hex().upper()}", encoded):
        delivery = await check(signed_by(algorithm=algorithm), {"x-hub-signature-256": text}, body=BODY)
        assert delivery is not None
        digests.add(delivery.digest)
    assert len(digests) == 1, "a signature in another spelling is the same delivery"
    assert signature.hex() not in digests
    await check(signed_by(algorithm=algorithm, header="X-Sign"), {"x-sign": f"{algorithm}={encoded}"}, body=BODY)


async def test_github_signatures_are_checked() -> None:
    # The values of GitHub's own example.
    secret, expected = "It's a Secret to Everybody", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"x-hub-signature-256": f"sha256={expected}"}
    delivery = await check(signed_by(secret=secret), headers, body=b"Hello, World!")
    assert delivery is not None
    assert delivery.expire_ms == NOW_MS + 86_400_000


async def test_other_signatures_are_refused() -> None:
    good = sign().hex()
    for text in (
        f"sha256={good[:-1]}",
        f"sha256={good}0",
        f"sha256={'0' * 64}",
        f"sha256={sign(secret='t' * 40).hex()}",
        f"sha256={sign(BODY + b' ').hex()}",
        f"sha1={sign(algorithm='sha1').hex()}",
        f"sha256=sha256={good}",
        f"sha256={good[:-1]}ä",
        "sha256",
        base64.b64encode(sign())[:-1].decode(),
    ):
        assert await refused(signed_by(), {"x-hub-signature-256": text}, body=BODY) == "The call is not authenticated."
    empty = Security(HmacAuth("", "X-S", "sha256", "", "{body}", 9))
    assert await refused(empty, {"x-s": sign(secret="").hex()}, body=BODY) == "The call is not authenticated."


async def test_bodies_of_calls_without_a_signature_are_not_read() -> None:
    for headers in ({}, {"x-hub-signature-256": ""}, {"x-hub-signature-256": "sha256=abc"}):
        assert await refused(signed_by(), headers) == "The call is not authenticated."
    old = {"x-hub-signature-256": sign().hex(), "x-time": "1600000000"}
    assert "signed more than 300 s ago" in await refused(signed_by(timestamp_header="X-Time"), old)


@pytest.mark.parametrize(
    ("signed", "text"), [(None, "1700000000."), ("v0:{timestamp}:{body}", "v0:1700000000:"), ("{timestamp}{body}", "")]
)
async def test_the_signed_time_must_be_near(signed: str | None, text: str) -> None:
    security = signed_by(header="X-Sign", timestamp_header="X-Time", signed=signed, window_s="60")

    def headers(time_s: object, part: str) -> dict[str, str]:
        prefix = (part or "1700000000").replace("1700000000", str(time_s)).encode()
        return {"x-sign": sign(prefix + BODY).hex(), "x-time": str(time_s)}

    for time_s in (1_700_000_000, 1_699_999_941, 1_700_000_060):
        delivery = await check(security, headers(time_s, text), body=BODY)
        assert delivery is not None
        assert delivery.expire_ms == (time_s + 60) * 1000, "as long as the time is accepted"
    for time_s in (1_699_999_940, 1_700_000_061):
        assert "in the future" in await refused(security, headers(time_s, text), body=BODY)
    for time_s in ("", "-1", "1.7e9", "١٧٠٠٠٠٠٠٠٠", "9" * 30, "1700000000, 1"):
        assert "epoch seconds" in await refused(security, headers(time_s, text), body=BODY)
    moved = {**headers(1_700_000_000, text), "x-time": "1700000001"}
    assert await refused(security, moved, body=BODY) == "The call is not authenticated."


async def test_tokens_for_one_call_have_an_id_and_an_end() -> None:
    def security(**fields: Any) -> Security:
        document = {"auth_type": "jwt", "jwt": {"secret": SECRET, "single_use": True, **fields}}
        return read_configuration({"security": document}).security

    claims = {"jti": "a", "exp": 9_999_999_999}
    first = await check(security(), bearer(claims))
    assert first is not None
    assert (first.expire_ms, await check(security(), bearer({**claims, "more": 1}))) == (9_999_999_999_000, first)
    for other in ({**claims, "jti": "b"}, {**claims, "iss": "us"}):
        delivery = await check(security(), bearer(other))
        assert delivery is not None
        assert delivery.digest != first.digest
    assert await check(security(single_use=False), bearer(claims)) is None
    for token in ({"exp": 9_999_999_999}, {**claims, "jti": ""}, {**claims, "jti": 7}, {**claims, "exp": float("inf")}):
        assert await refused(security(), bearer(token)) == "The call is not authenticated."
    assert "never expires" in await refused(security(require_exp=False), bearer({"jti": "a"}))
    far = await check(security(), bearer({**claims, "exp": 10**30}))
    assert far is not None
    assert far.expire_ms < 2**63


def test_headers_with_secrets_are_recognized() -> None:
    assert is_secret_header("X-HUB-signature-256", signed_by())
    security = Security(TokenAuth("X-Token", "v"))
    assert [is_secret_header(name, security) for name in ("x-TOKEN", "Authorization", "cookie", "x-event")] == [
        True,
        True,
        True,
        False,
    ]
