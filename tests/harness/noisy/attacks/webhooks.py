"""Calls of webhooks by strangers."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.harness.noisy.attack import Attack, Attacker
from tests.harness.noisy.plain_canvases import WEBHOOK, with_security

HOOK = "/api/v1/agents/{agent}/webhook"
JSON = {"Content-Type": "application/json"}
MB = 1024 * 1024


def _by_hook(
    name: str,
    summary: str,
    body: Callable[[], bytes],
    headers: Mapping[str, str] = JSON,
    security: Mapping[str, Any] | None = None,
    query: str = "",
) -> Attack:
    async def prepare(attacker: Attacker) -> None:
        dsl = with_security(security) if security else WEBHOOK
        attacker.kept["body"] = body()
        attacker.kept["path"] = HOOK.replace("{agent}", await attacker.agent(dsl) or "") + query

    async def step(attacker: Attacker) -> None:
        await attacker.send("POST", attacker.kept["path"], content=attacker.kept["body"], headers=dict(headers), key="")

    return Attack(name, summary, step, prepare)


def _nested(depth: int) -> bytes:
    return b'{"text": "a", "b": ' + b"[" * depth + b"]" * depth + b"}"


def _part(number: int, content: bytes) -> bytes:
    head = f'--b\r\nContent-Disposition: form-data; name="f{number}"; filename="{number}.txt"\r\n\r\n'
    return head.encode() + content + b"\r\n"


def _token(claims: Any, algorithm: str = "HS256") -> str:
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "typ": "JWT"}).encode()).rstrip(b"=")
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    return f"{head.decode()}.{body.decode()}.{'A' * 43}"


def _bearer(token: str) -> dict[str, str]:
    return {**JSON, "Authorization": f"Bearer {token}"}


_JWT = {"auth_type": "jwt", "jwt": {"secret": "a secret of at least 32 characters", "algorithm": "HS256"}}
_BASIC = {"auth_type": "basic", "basic_auth": {"username": "u", "password": "p"}}
_RATE = {"auth_type": "none", "allow_anonymous": True, "rate_limit": {"limit": 5, "per": "minute"}}

ATTACKS: list[Attack] = [
    _by_hook("hook-list", "9 MB in a field that the schema lacks", lambda: b'{"b": [' + b"1," * (4 * MB) + b"1]}"),
    _by_hook("hook-list-2mb", "2 MB in a field that the schema lacks", lambda: b'{"b": [' + b"1," * MB + b"1]}"),
    _by_hook("hook-deep", "lists nested 4,000,000 deep", lambda: _nested(4_000_000)),
    _by_hook("hook-fields", "200,000 fields", lambda: json.dumps({f"k{n}": n for n in range(200_000)}).encode()),
    _by_hook("hook-text", "a declared field of 9 MB", lambda: b'{"text": "' + b"a" * (9 * MB) + b'"}'),
    _by_hook(
        "hook-query",
        "thousands of query parameters",
        lambda: b"{}",
        query="?" + "&".join(f"q{n}=1" for n in range(4000)),
    ),
    _by_hook(
        "hook-form",
        "a form with a million fields",
        lambda: b"a=1&" * 1_000_000,
        {"Content-Type": "application/x-www-form-urlencoded"},
    ),
    _by_hook(
        "hook-files",
        "a multipart body with 10 files of 900 KB",
        lambda: b"".join(_part(n, b"word " * 180_000) for n in range(10)) + b"--b--\r\n",
        {"Content-Type": "multipart/form-data; boundary=b"},
    ),
    _by_hook(
        "hook-many-files",
        "a multipart body with 20,000 files",
        lambda: b"".join(_part(n, b"x") for n in range(20_000)) + b"--b--\r\n",
        {"Content-Type": "multipart/form-data; boundary=b"},
    ),
    _by_hook("hook-jwt-garbage", "tokens that are no tokens", lambda: b"{}", _bearer("." * 8000), _JWT),
    _by_hook("hook-jwt-claims", "a token with a thousand claims", lambda: b"{}", _bearer(_token(["x"] * 3000)), _JWT),
    _by_hook(
        "hook-jwt-none", "a token without a signature", lambda: b"{}", _bearer(_token({"exp": 9e99}, "none")), _JWT
    ),
    _by_hook(
        "hook-basic", "passwords of 16 KB", lambda: b"{}", {**JSON, "Authorization": f"Basic {'QTo' * 5000}"}, _BASIC
    ),
    _by_hook("hook-rate", "calls beyond the webhook's own rate", lambda: b'{"text": "a"}', security=_RATE),
]
