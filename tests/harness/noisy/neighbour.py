"""The tenant next door, who takes ordinary turns, and a probe of the server's health."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.fakes.canvas import canvas, node, text

USERS = 2
PAUSE_S = 0.05
PROBE_PAUSE_S = 0.05
LIMIT_S = 30.0
ANSWER = "on its way."
CHAT = "/api/v1/agents/chat/completions"
CANVAS = canvas(
    {
        "t": text(["l"], "{% for n in range(3) %}{{ n }} {% endfor %}{sys.query}"),
        "l": node("LLM", {"llm_id": "any@Mock", "prompts": "{t@result}"}, ["m"]),
        "m": node("Message", {"content": ["{l@content}"]}),
    }
)
SAVED_EVERY = 20
"""After this number of turns a user saves the agent, so that it is compiled again."""


@dataclass
class Measured:
    """How long requests took, and what went wrong."""

    seconds: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])

    def percentile(self, share: float) -> float:
        """Return a percentile of the times, in milliseconds; 0 without any."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0


class Neighbour:
    """Takes turns with an agent of its own: new sessions, sessions that go on, and a saved agent now and then."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self.client = httpx.AsyncClient(base_url=url, headers=headers, timeout=LIMIT_S)
        self.title = f"Parcels {time.time_ns()}"
        self.agent = ""

    async def settle(self) -> None:
        """Create the agent, and use what a server loads at its first use."""
        self.agent = await self._save()
        for _ in range(3):
            await self._turn({})

    async def live(self, seconds: float) -> Measured:
        """Play turns as several users for so many seconds, and return what was measured."""
        measured, until = Measured(), time.monotonic() + seconds
        await asyncio.gather(*(self._use(measured, until) for _ in range(USERS)))
        return measured

    async def _use(self, measured: Measured, until: float) -> None:
        number, session = 0, ""
        while time.monotonic() < until:
            number += 1
            began = time.monotonic()
            try:
                if number % SAVED_EVERY == 0:
                    await self._save()
                session = await self._turn({"session_id": session} if session and number % 3 else {})
            except (httpx.HTTPError, ValueError) as error:
                measured.errors.append(f"{type(error).__name__}: {error}"[:300])
            measured.seconds.append(time.monotonic() - began)
            await asyncio.sleep(PAUSE_S)

    async def _turn(self, more: dict[str, Any]) -> str:
        """Play a turn as a stream; return its session."""
        body = {"agent_id": self.agent, "query": "Where is my parcel?", "stream": True, **more}
        response = await self.client.post(CHAT, json=body)
        if "workflow_finished" not in response.text or ANSWER not in response.text:
            raise ValueError(f"{response.status_code}: {response.text[-250:]}")
        return response.text.partition('"session_id"')[2].partition('"')[2].partition('"')[0]

    async def _save(self) -> str:
        body: dict[str, Any] = {"title": self.title, "dsl": CANVAS}
        path = f"/api/v1/agents/{self.agent}"
        response = await (
            self.client.put(path, json=body) if self.agent else self.client.post("/api/v1/agents", json=body)
        )
        answer = response.json()
        if answer["code"] != 0:
            raise ValueError(f"{response.status_code}: {response.text[:250]}")
        return answer["data"]["id"] if not self.agent else self.agent


async def probe(url: str, measured: Measured) -> None:
    """Ask for the server's health until cancelled, on a new connection each time."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_S, limits=limits) as client:
        while True:
            began = time.monotonic()
            try:
                response = await client.get("/health")
                if response.status_code != 200:
                    measured.errors.append(f"/health: {response.status_code}")
            except httpx.HTTPError as error:
                measured.errors.append(f"/health: {type(error).__name__}")
            measured.seconds.append(time.monotonic() - began)
            await asyncio.sleep(PROBE_PAUSE_S)
