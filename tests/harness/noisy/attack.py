"""What an attack is, and what an attacker can send."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel

from tests.harness.noisy.plain_canvases import FILES

RECONNECT_AFTER_S = 10.0
"""How long an attacker waits for a frame before it follows its run on the other replica."""
_UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=200)


class Target(BaseModel):
    """The addresses and keys of an attacker."""

    urls: list[str]
    """The replicas; the first is the one that is attacked."""
    key: str
    beta_key: str
    upstream: str
    """The address of the hostile model, tool and MCP server."""


@dataclass
class Attacker:
    """Sends requests, and counts their responses by status and code."""

    target: Target
    client: httpx.AsyncClient = field(init=False)
    answers: Counter[str] = field(default_factory=Counter[str])
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """What an attack needs again in its next step."""
    number: int = 0

    def __post_init__(self) -> None:
        self.client = httpx.AsyncClient(base_url=self.target.urls[0], timeout=60, limits=_UNLIMITED)

    def count(self) -> int:
        """Return a number that has not been used."""
        self.number += 1
        return self.number

    def headers(self, key: str = "api") -> dict[str, str]:
        """Return the headers of a key: ``api``, ``beta``, ``""`` for none, or the key itself."""
        keys = {"api": self.target.key, "beta": self.target.beta_key}
        return {"Authorization": f"Bearer {keys.get(key, key)}"} if key else {}

    async def send(self, method: str, path: str, *, key: str = "api", **request: Any) -> Any:
        """Send a request and count the response; return its JSON, or None."""
        headers = {**self.headers(key), **request.pop("headers", {})}
        try:
            async with self.client.stream(method, path, headers=headers, **request) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    await self._read_frames(response)
                    return None
                text = await response.aread()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self.answers[type(error).__name__] += 1
            return None
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        self.answers[f"{response.status_code}{_describe_code(value)}"] += 1
        return value

    async def _read_frames(self, response: httpx.Response) -> None:
        last = b""
        async for piece in response.aiter_bytes():
            last = (last + piece)[-2000:]
        failed = b'"code": 500' in last or b'"code":500' in last or b"**ERROR**" in last
        self.answers["stream failed" if failed else "stream"] += 1

    async def agent(self, dsl: Any, title: str = "") -> str | None:
        """Create an agent; return its id, or None if it is refused."""
        body = json.dumps({"title": title or f"A{self.count()}", "dsl": dsl}).encode()
        return await self.agent_of(body)

    async def agent_of(self, body: bytes) -> str | None:
        """Create an agent from a body."""
        value = await self.send("POST", "/api/v1/agents", content=body, headers=JSON)
        return as_mapping(as_mapping(value).get("data")).get("id")

    async def chat(self, agent: str, query: Any = "go", **body: Any) -> None:
        """Play a turn as a stream. Follow it on the other replica, if there is one, when this one stops answering."""
        body = {"agent_id": agent, "query": query, "stream": True, **body}
        if len(self.target.urls) == 1:
            await self.send("POST", CHAT, json=body)
            return
        last = ""
        for attempt in range(3):
            url = self.target.urls[attempt % 2]
            last, has_ended = await self._follow(f"{url}{CHAT}", body, last)
            if has_ended:
                return

    async def _follow(self, url: str, body: Mapping[str, Any], last: str) -> tuple[str, bool]:
        """Read a stream; return the last id, and whether the stream has ended."""
        headers = {**self.headers(), "X-RAGFlow-Event-Ids": "true", **({"Last-Event-ID": last} if last else {})}
        timeout = httpx.Timeout(60, read=RECONNECT_AFTER_S)
        try:
            async with self.client.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
                async for line in response.aiter_lines():
                    last = line[3:].strip() if line.startswith("id:") else last
        except httpx.HTTPError as error:
            self.answers[type(error).__name__] += 1
            return last, False
        self.answers[f"{response.status_code} stream"] += 1
        return last, True

    async def upload(self, name: str, content: bytes, key: str = "api") -> Any:
        """Upload a file without an agent; return its description, or None if it is refused."""
        value = await self.send("POST", "/api/v1/documents/upload", files={"file": (name, content)}, key=key)
        return as_mapping(value).get("data") or None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        address = urlsplit(self.target.urls[0])
        return await asyncio.open_connection(address.hostname, address.port, limit=1024)


CHAT = "/api/v1/agents/chat/completions"
JSON = {"Content-Type": "application/json"}

Step = Callable[[Attacker], Awaitable[None]]


async def _nothing(attacker: Attacker) -> None:
    pass


@dataclass(frozen=True)
class Attack:
    """Something that a tenant, or a stranger, does again and again.

    ``prepare`` runs once; ``step`` is repeated by ``at_once`` clients until the time is over.
    """

    name: str
    summary: str
    step: Step
    prepare: Step = _nothing
    at_once: int = 4
    pause_s: float = 0.0
    """How long a client waits after each step."""


def by_canvas(name: str, summary: str, build: Callable[[], Any], query: Any = "go", **more: Any) -> Attack:
    """Return an attack that creates an agent, until one is accepted, and then plays turns with it."""

    async def prepare(attacker: Attacker) -> None:
        attacker.kept["body"] = json.dumps({"title": "NAME", "dsl": build()}).encode()

    async def step(attacker: Attacker) -> None:
        if "agent" not in attacker.kept:
            title = b"Attack %d" % attacker.count()
            agent = await attacker.agent_of(attacker.kept["body"].replace(b"NAME", title, 1))
            if agent is None:
                return
            attacker.kept["agent"] = agent
        await attacker.chat(attacker.kept["agent"], query)

    return Attack(name, summary, step, prepare, **more)


def by_body(
    name: str, summary: str, path: str, build: Callable[[str], bytes], dsl: Any = None, key: str = "api", **more: Any
) -> Attack:
    """Return an attack that posts the same body; ``{agent}`` in the path is the agent of ``dsl``."""
    kind = more.pop("content_type", "application/json")

    async def prepare(attacker: Attacker) -> None:
        agent = await attacker.agent(dsl) if dsl is not None else ""
        attacker.kept |= {"path": path.replace("{agent}", agent or ""), "body": build(agent or "")}

    async def step(attacker: Attacker) -> None:
        kept = attacker.kept
        await attacker.send("POST", kept["path"], content=kept["body"], key=key, headers={"Content-Type": kind})

    return Attack(name, summary, step, prepare, **more)


def by_file(name: str, summary: str, filename: str, build: Callable[[], bytes], **more: Any) -> Attack:
    """Return an attack that uploads a file, and plays a turn with it."""

    async def prepare(attacker: Attacker) -> None:
        attacker.kept |= {"content": build(), "agent": await attacker.agent(FILES)}

    async def step(attacker: Attacker) -> None:
        kept = attacker.kept
        file = await attacker.upload(filename, kept["content"])
        if file and kept["agent"]:
            await attacker.chat(kept["agent"], "read", files=file if isinstance(file, list) else [file])

    return Attack(name, summary, step, prepare, **more)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, or an empty one for other values."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _describe_code(value: Any) -> str:
    """Return RAGFlow's code in a response, or the code of an error of the native API."""
    fields = as_mapping(value)
    code = (as_mapping(fields.get("error")) or fields).get("code", "")
    return f"/{code}" if isinstance(code, int | str) and code != "" else ""
