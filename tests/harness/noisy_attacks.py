"""What the attacker does: one attack of each kind. ``python -m tests.harness.noisy_attacks NAME`` plays one.

It reads a `Target` as JSON from stdin, attacks until stdin ends, and prints how often it had which answer.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
from msgspec import Struct

from tests.fakes.canvas import canvas, node, text

MB = 1024 * 1024
CHAT = "/api/v1/agents/chat/completions"
END = node("Message", {"content": ["done"]})
ECHO = canvas({"m": node("Message", {"content": ["Said {sys.query}"]})})
FILES = canvas({"m": node("Message", {"content": ["{sys.files}"]})})
LONG = canvas({"l": node("LLM", {"prompts": "{sys.query}"}, ["m"]), "m": node("Message", {"content": ["{l@content}"]})})


class Target(Struct):
    """The address of the server that is attacked, and the attacker's key."""

    url: str
    key: str


class Attacker:
    """Sends requests, and counts their answers."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.answers: Counter[str] = Counter()
        self.agent: str = ""
        self.content = b""
        self.client = httpx.AsyncClient(base_url=target.url, timeout=60, limits=httpx.Limits(max_connections=None))

    async def send(self, method: str, path: str, key: str = "", **request: Any) -> Any:
        """Send a request and count the answer; return its JSON, or `{}`."""
        headers = {"Authorization": f"Bearer {key or self.target.key}", **request.pop("headers", {})}
        try:
            response = await self.client.request(method, path, headers=headers, **request)
            self.answers[str(response.status_code)] += 1
            return response.json() or {}
        except (httpx.HTTPError, ValueError) as error:
            self.answers[type(error).__name__] += isinstance(error, httpx.HTTPError)
            return {}

    async def create(self, dsl: Any) -> None:
        """Create the agent that the attack uses."""
        answer = await self.send("POST", "/api/v1/agents", json={"title": f"A{id(dsl)}", "dsl": dsl})
        data: Any = answer.get("data") or {}
        self.agent = data.get("id", "")

    async def chat(self, query: Any = "go", **more: Any) -> None:
        """Play a turn."""
        await self.send("POST", CHAT, json={"agent_id": self.agent, "query": query, "stream": True, **more})

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        address = urlsplit(self.target.url)
        return await asyncio.open_connection(address.hostname, address.port, limit=1024)


Step = Callable[[Attacker], Awaitable[None]]


async def _nothing(attacker: Attacker) -> None:
    pass


class Attack(Struct):
    """Something that is done again and again, by ``at_once`` clients, after it has been prepared once."""

    summary: str
    step: Step
    prepare: Step = _nothing
    at_once: int = 4


def _creating(build: Callable[[], Any]) -> Step:
    return lambda attacker: attacker.create(build())


def _playing(summary: str, build: Callable[[], Any], query: str = "go", at_once: int = 4) -> Attack:
    """Return an attack that plays turns of a canvas."""
    return Attack(summary, lambda attacker: attacker.chat(query), _creating(build), at_once)


def _posting(summary: str, path: str, body: Callable[[str], bytes]) -> Attack:
    """Return an attack that posts a body, which is built once for an agent that echoes."""

    async def prepare(attacker: Attacker) -> None:
        await attacker.create(ECHO)
        attacker.content = body(attacker.agent)

    async def step(attacker: Attacker) -> None:
        await attacker.send("POST", path, content=attacker.content, headers={"Content-Type": "application/json"})

    return Attack(summary, step, prepare)


async def _upload(attacker: Attacker) -> None:
    answer = await attacker.send("POST", "/api/v1/documents/upload", files={"file": ("a.html", b"<div>" * 500_000)})
    await attacker.chat("read", files=[answer.get("data")])


async def _save_large(attacker: Attacker) -> None:
    await attacker.create(canvas({f"t{n}": text([f"t{n + 1}"]) for n in range(1900)} | {"t1900": END}))


async def _hold_heads(attacker: Attacker) -> None:
    """Open connections, and send a header a second on each, without end."""
    writers = [(await attacker.connect())[1] for _ in range(400)]
    try:
        while not all(writer.is_closing() for writer in writers):
            for writer in writers:
                writer.write(b"GET / HTTP/1.1\r\n")
            await asyncio.sleep(1)
        attacker.answers["closed"] += 1
    finally:
        for writer in writers:
            writer.close()


async def _never_read(attacker: Attacker) -> None:
    """Start turns with answers of 1 MB, and never read them."""
    body = json.dumps({"agent_id": attacker.agent, "query": "x" * MB, "stream": True}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {attacker.target.key}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(20):
            writers.append((await attacker.connect())[1])
            writers[-1].write(head.encode() + body)
            attacker.answers["opened"] += 1
            await asyncio.sleep(0.05)
        await asyncio.sleep(60)
    finally:
        for writer in writers:
            writer.transport.abort()


async def _invent_key(attacker: Attacker) -> None:
    await attacker.send("POST", CHAT, key=f"ragflow-{os.urandom(16).hex()}", json={"query": "x"})


async def _fork(attacker: Attacker) -> None:
    """Copy a session, again and again."""
    path = f"/native/v1/agents/{attacker.agent}/runs"
    if not attacker.content:
        answer = await attacker.send("POST", path, json={"query": "x"})
        attacker.content = str(answer.get("id", "")).encode()
    await attacker.send("POST", f"{path}/{attacker.content.decode()}/fork", json={})


def _body(fields: str) -> Callable[[str], bytes]:
    return lambda agent: f'{{"agent_id": "{agent}", "model": "{agent}", "stream": true, {fields}}}'.encode()


def _template(source: str) -> Callable[[], Any]:
    return lambda: canvas({"t": text(["m"], source), "m": node("Message", {"content": ["{t@result}"]})})


def _split() -> dict[str, Any]:
    params = {"method": "split", "split_ref": "sys.query", "delimiters": [f"a{n}" for n in range(5_000)]}
    return canvas({"x": node("StringTransform", params, ["m"]), "m": END})


def _fan() -> dict[str, Any]:
    names = [f"t{n}" for n in range(300)]
    return canvas({**{name: text(["m"]) for name in names}, "m": END}, names)


_RFIND = '{% set s="a"*1500000 %}{% set p="ab"+"a"*700000 %}{{ s.rfind(p) }}'
_RANGES = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
_MESSAGES = ",".join(['{"role": "user", "content": "x"}'] * 100_000)

ATTACKS: dict[str, Attack] = {
    "body": _posting("millions of empty lists", CHAT, _body('"inputs": {"a": [' + "[]," * (5 * MB) + "[]]}")),
    "messages": _posting("100,000 messages", "/v1/chat/completions", _body(f'"messages": [{_MESSAGES}]')),
    "template-search": _playing("a template that searches from the end", _template(_RFIND)),
    "template-loops": _playing("a template with nested ranges", _template(_RANGES)),
    "component": _playing("a text split at 5,000 delimiters", _split, "a" * 2 * MB),
    "canvas": Attack("canvases of 1,900 nodes, to be saved", _save_large),
    "fan": _playing("300 nodes at once", _fan),
    "cycle": _playing("a cycle without end", lambda: canvas({"a": text(["b"]), "b": text(["a"])}), at_once=16),
    "document": Attack("HTML nested 500,000 deep", _upload, _creating(lambda: FILES)),
    "heads": Attack("headers that never end", _hold_heads, at_once=2),
    "unread": Attack("streams of 1 MB that nobody reads", _never_read, _creating(lambda: ECHO), at_once=2),
    "turns": _playing("ordinary turns, as many as go", lambda: ECHO, at_once=64),
    "keys": Attack("invented keys", _invent_key, at_once=32),
    "forks": Attack("copies of a session", _fork, _creating(lambda: ECHO), at_once=16),
    "model": _playing("a model that writes two megabytes", lambda: LONG, "endless", at_once=16),
}


async def _repeat(attack: Attack, attacker: Attacker) -> None:
    while True:
        try:
            await attack.step(attacker)
        except OSError as error:
            attacker.answers[type(error).__name__] += 1
        await asyncio.sleep(0.01)


async def _play(attack: Attack, target: Target) -> Counter[str]:
    attacker = Attacker(target)
    end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await attack.prepare(attacker)
    clients = [asyncio.create_task(_repeat(attack, attacker)) for _ in range(attack.at_once)]
    await asyncio.wait([end, *clients], return_when=asyncio.FIRST_COMPLETED)
    return attacker.answers


if __name__ == "__main__":
    os.nice(19)  # the processor of a real attacker is elsewhere
    answers = asyncio.run(_play(ATTACKS[sys.argv[1]], msgspec.json.decode(sys.stdin.readline(), type=Target)))
    sys.stdout.write(json.dumps(dict(answers.most_common())) + "\n")
    sys.stdout.flush()
    os._exit(0)  # connections that are never read would delay the interpreter's exit
