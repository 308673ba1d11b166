"""Very many requests of one kind."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from tests.harness.noisy.attack import CHAT, Attack, Attacker, Step
from tests.harness.noisy.plain_canvases import ECHO, FORM, SLOW


def _keeping(dsl: Mapping[str, Any], sessions: int = 0) -> Step:
    """Return a preparation that creates an agent, and sessions."""

    async def prepare(attacker: Attacker) -> None:
        agent = attacker.kept["agent"] = await attacker.agent(dsl)
        for _ in range(sessions):
            await attacker.send("POST", f"/native/v1/agents/{agent}/sessions", json={})

    return prepare


def _request(method: str, path: str, **request: Any) -> Step:
    """Return a step that sends one request; ``{agent}`` and ``{number}`` are replaced in the path."""

    async def step(attacker: Attacker) -> None:
        address = path.replace("{agent}", str(attacker.kept.get("agent"))).replace("{number}", str(attacker.count()))
        await attacker.send(method, address, **request)

    return step


def _invented(path: str, body: Callable[[], Any]) -> Step:
    async def step(attacker: Attacker) -> None:
        await attacker.send("POST", path, json=body(), key=f"ragflow-{secrets.token_urlsafe(32)}")

    return step


async def _sign_in(attacker: Attacker) -> None:
    person = {"email": f"{attacker.count()}@example.com", "password": secrets.token_hex(200)}
    await attacker.send("POST", "/api/v1/auth/login", json=person, key="")


async def _sign_in_as_one(attacker: Attacker) -> None:
    person = {"email": "ann@example.com", "password": secrets.token_hex(20)}
    await attacker.send("POST", "/api/v1/auth/login", json=person, key="")


async def _chat(attacker: Attacker) -> None:
    await attacker.chat(attacker.kept["agent"])


async def _wait_in_background(attacker: Attacker) -> None:
    path = f"/native/v1/agents/{attacker.kept['agent']}/runs?mode=background"
    await attacker.send("POST", path, json={"query": "x"})


async def _debug(attacker: Attacker) -> None:
    path = f"/api/v1/agents/{attacker.kept['agent']}/components/m/debug"
    await attacker.send("POST", path, json={"params": {"sys.query": {"value": "x" * 100_000}}})


async def _embedded(attacker: Attacker) -> None:
    path = f"/api/v1/agentbots/{attacker.kept['agent']}/completions"
    await attacker.send("POST", path, json={"question": "x", "stream": True}, key="beta")


async def _embedded_uploads(attacker: Attacker) -> None:
    path = f"/api/v1/agents/{attacker.kept['agent']}/upload"
    await attacker.send("POST", path, files={"file": (f"{attacker.count()}.txt", b"x" * 500_000)}, key="beta")


async def _fetch(attacker: Attacker) -> None:
    path = f"/api/v1/agents/{attacker.kept['agent']}/upload"
    await attacker.send("POST", path, params={"url": f"{attacker.target.upstream}/hang"})


async def _probe(attacker: Attacker) -> None:
    """Test a connection to a port that never answers."""
    port = int(attacker.target.upstream.rpartition(":")[2])
    body = {"db_type": "mysql", "database": "d", "username": "u", "host": "127.0.0.1", "port": port, "password": "p"}
    await attacker.send("POST", "/api/v1/agents/test_db_connection", json=body)


_PAGES = "page=999999999&page_size=999999999&orderby=create_time&desc=true&keywords=" + "%25" * 3000
_SMALL = {"query": "x"}

ATTACKS: list[Attack] = [
    Attack("turns", "ordinary turns, as many as go", _chat, _keeping(ECHO), at_once=64),
    Attack("long-turns", "endless turns, as many as go", _chat, _keeping(SLOW), at_once=300),
    Attack("background-runs", "endless runs in the background", _wait_in_background, _keeping(SLOW), at_once=16),
    Attack("waiting-runs", "runs that wait for a form", _chat, _keeping(FORM), at_once=32),
    Attack("embedded-turns", "turns of an embedded page", _embedded, _keeping(ECHO), at_once=64),
    Attack("embedded-long-turns", "endless turns of an embedded page", _embedded, _keeping(SLOW), at_once=300),
    Attack("embedded-uploads", "uploads of an embedded page", _embedded_uploads, _keeping(ECHO), at_once=8),
    Attack("debugging", "components that run alone", _debug, _keeping(ECHO), at_once=16),
    Attack("invented-keys", "invented API keys", _invented(CHAT, lambda: _SMALL), at_once=32),
    Attack(
        "invented-native-keys",
        "invented keys for the native API",
        _invented("/native/v1/agents/x/runs", lambda: _SMALL),
        at_once=32,
    ),
    Attack("sign-ins", "sign-ins of many people", _sign_in, at_once=32),
    Attack("one-sign-in", "sign-ins of one person", _sign_in_as_one, at_once=32),
    Attack(
        "huge-pages", "lists with huge pages and long keywords", _request("GET", f"/api/v1/agents?{_PAGES}"), at_once=16
    ),
    Attack(
        "huge-session-pages",
        "sessions with huge pages",
        _request("GET", f"/api/v1/agents/{{agent}}/sessions?{_PAGES}"),
        _keeping(ECHO, 300),
        at_once=16,
    ),
    Attack("missing-pages", "addresses that do not exist", _request("GET", "/{number}"), at_once=32),
    Attack("document", "the OpenAPI document", _request("GET", "/openapi.json"), at_once=16),
    Attack("ready", "readiness", _request("GET", "/ready"), at_once=32),
    Attack(
        "webhook-logs",
        "logs of webhooks",
        _request("GET", "/api/v1/agents/{agent}/webhook/logs?since_ts=0"),
        _keeping(ECHO),
        at_once=32,
    ),
    Attack("fetches", "files fetched from an address that hangs", _fetch, _keeping(ECHO), at_once=32),
    Attack("database-tests", "database connections that hang", _probe, at_once=32),
]
