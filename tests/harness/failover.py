"""Stop servers under open streams: ``python -m tests.campaigns failover [ROUNDS] [SEED] [COPIES]``.

Two server processes share PostgreSQL and Redis. In every round one of them plays COPIES of all canvases at once and is
stopped after a random share of the frames, by SIGTERM or SIGKILL in turn. Every client reconnects to the other server
with ``Last-Event-ID``. What it has put together over all connections must equal an undisturbed stream, frame by frame.
"""

import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from ragflow_lg.integrations.mock_model.rules import Rules
from ragflow_lg.models.prompt_texts import PROMPTS
from tests.fakes.agents import page
from tests.fakes.canvas import canvas
from tests.fakes.http_server import HttpServer, Route
from tests.harness.shared_services import start_shared_services
from tests.harness.takeover_canvases import CANVASES, UNORDERED, VARIABLES, replies_of
from tests.server.replicas import Replica, read_frames, running_replicas, start_replica

PIECE_S = 0.05
CALL_MS = 100
LIMIT_S = 90.0
SIGNALS = (signal.SIGTERM, signal.SIGKILL)


@dataclass
class Stream:
    """What one client has put together, over all of its connections."""

    name: str
    frames: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    times: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """When each frame arrived, and on which connection."""

    def gap_s(self, stopped: float) -> float | None:
        """Return the longest time without a frame after the stop of the server; None if the stream was not cut."""
        times = [stopped, *(at for at, _ in self.times if at > stopped)]
        is_cut = self.times[-1][1] > 1
        return max(later - at for at, later in pairwise(times)) if is_cut and len(times) > 1 else None


class Client:
    """Plays canvases on any of the servers that are running."""

    def __init__(self, servers: list[Replica], agents: Mapping[str, str]) -> None:
        self.servers = servers
        self.agents = agents
        self.frames, self.calm_frames = 0, 0
        """How many frames have arrived, and how many an undisturbed round has."""

    async def play(self, name: str) -> list[Stream]:
        """Play a canvas and answer its forms; return one stream for each request."""
        body: dict[str, Any] = {"agent_id": self.agents[name], "query": "question", "stream": True}
        body["inputs"] = {"items": {"value": ["a", "b"]}}
        streams: list[Stream] = []
        while not streams or streams[-1].frames[-1].get("event") == "user_inputs":
            if streams:
                body |= {"session_id": streams[-1].frames[-1]["session_id"], "inputs": {"w": {"value": "x"}}}
            streams.append(await self._read(name, body))
        return streams

    async def _read(self, name: str, body: Mapping[str, Any]) -> Stream:
        """Read a stream to its end, reconnecting as often as necessary."""
        stream = Stream(name)
        async for frame, connection in read_frames(lambda: self.servers[0], body, LIMIT_S):
            self.frames += 1
            stream.frames.append(frame)
            stream.times.append((time.monotonic(), connection))
        return stream


def _without_times(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "created_at" and not key.endswith("_time")}


def readable(stream: Stream) -> list[str]:
    """Return the frames without times and ids, with adjacent pieces of text as one; sorted if they have no order."""
    frames: list[list[Any]] = []
    said: list[Any] = []
    for frame in stream.frames:
        data = _without_times(frame.get("data") or {})
        if isinstance(data.get("outputs"), dict):
            data["outputs"] = _without_times(data["outputs"])
        is_text = frame.get("event") == "message"
        if is_text and stream.name in UNORDERED:
            said.append(data["content"])
        elif is_text and set(data) == {"content"} and frames and frames[-1][0] == "text":
            frames[-1][1] += data["content"]
        elif is_text and set(data) == {"content"}:
            frames.append(["text", data["content"]])
        else:
            frames.append(
                [frame.get("event", ""), data or {k: v for k, v in frame.items() if k in ("code", "message")}]
            )
            if frame.get("event") == "message_end" and stream.name in UNORDERED:
                frames[-1].append("".join(said))
                said.clear()
    lines = [json.dumps(frame, sort_keys=True, ensure_ascii=False) for frame in frames]
    return sorted(lines) if stream.name in UNORDERED else lines


def describe_difference(expected: list[str], got: list[str]) -> str:
    """Return the first difference, or ``""``."""
    for at, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one != other:
            return f"frame {at} is {other[:300]}, not {one[:300]}"
    return "" if len(expected) == len(got) else f"{len(got)} frames, not {len(expected)}"


def _rules() -> Rules:
    """Return the replies of all canvases as rules that depend only on the request."""
    react = {"system": PROMPTS["react"].text.partition("\n")[0]}
    rules: list[dict[str, Any]] = []
    for name, more in (("react", react), ("plan", {}), ("agent", {})):
        for reply in replies_of(name):
            pieces = list(reply.chunks) if reply.chunks is not None else [reply.text]
            calls = [{"name": call["name"], "arguments": call["arguments"]} for call in reply.calls]
            answer = {"text": pieces, "reasoning": reply.reasoning, "calls": calls, "piece_delay_s": PIECE_S}
            for place in ("last", *(() if more else ("system",))):
                rules.append({"when": {**more, place: reply.match}, "replies": [answer]})
    return Rules.model_validate({"rules": [*rules, {"replies": [{"text": "Nothing."}]}]})


async def _start_services(stack: AsyncExitStack, folder: Path) -> tuple[Path, str]:
    """Start everything but the servers; return the settings and the address of the tools."""
    wiki = page("Laos", "Vientiane is the capital.").text
    tools = HttpServer([Route("/x", body="y", delay_ms=CALL_MS), Route("/", body=wiki, delay_ms=CALL_MS)])
    await stack.enter_async_context(tools.running())
    tool_url = f"http://127.0.0.1:{tools.port}"
    more = f'[tools.wikipedia]\nendpoint = "{tool_url}"\n'
    settings, _, _ = await start_shared_services(stack, folder, _rules(), more_settings=more)
    return settings, tool_url


async def _create_agents(server: Replica, tool_url: str) -> dict[str, str]:
    agents: dict[str, str] = {}
    for name, (components, first) in CANVASES.items():
        document = json.dumps(canvas(components, first, variables=VARIABLES)).replace("http://wiki.test", tool_url)
        response = await server.client.post("/agents", json={"title": name, "dsl": json.loads(document)})
        agents[name] = response.json()["data"]["id"]
    return agents


@dataclass
class Tally:
    """The results of all rounds."""

    stops: int = 0
    cut: int = 0
    differences: list[str] = field(default_factory=list[str])
    gaps: dict[str, list[float]] = field(default_factory=dict[str, list[float]])


async def _play_round(
    client: Client,
    expected: Mapping[str, list[list[str]]],
    number: signal.Signals,
    share: float,
    tally: Tally,
    copies: int,
) -> None:
    """Stop the first server when this share of the frames has arrived; compare what the clients have put together."""
    when, until = f"after {share:.0%} of the frames", client.frames + share * copies * client.calm_frames
    names = [name for name in client.agents for _ in range(copies)]
    playing = [asyncio.create_task(client.play(name)) for name in names]
    while client.frames < until:
        await asyncio.sleep(0.005)
    stopped, victim = time.monotonic(), client.servers.pop(0)
    victim.process.send_signal(number)
    results = await asyncio.gather(*playing, return_exceptions=True)
    await victim.process.wait()
    await victim.client.aclose()
    tally.stops += 1
    for name, streams in zip(names, results, strict=True):
        if isinstance(streams, BaseException):
            tally.differences.append(f"{name}, {number.name} {when}: {streams!r}")
            continue
        gaps = [gap for stream in streams if (gap := stream.gap_s(stopped)) is not None]
        tally.cut += len(gaps)
        tally.gaps.setdefault(number.name, []).extend(gaps)
        if len(streams) != len(expected[name]):
            answers = " | ".join(" ".join(readable(stream)) for stream in streams)
            tally.differences.append(f"{name}, {number.name} {when}: {len(streams)} streams: {answers}")
            continue
        for stream, calm in zip(streams, expected[name], strict=True):
            if problem := describe_difference(calm, readable(stream)):
                tally.differences.append(f"{name}, {number.name} {when}: {problem}")


async def disturb(
    rounds: int,
    seed: int,
    report: Callable[[str], object] = sys.stdout.write,
    signals: Sequence[signal.Signals] = SIGNALS,
    copies: int = 1,
) -> Tally:
    """Stop a server in each round, with the signals in turn; return the results."""
    chance, tally = random.Random(seed), Tally()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragflow-lg-failover-")))
        settings, tool_url = await _start_services(stack, folder)
        servers = await stack.enter_async_context(running_replicas(settings, 2))
        key = servers[0].key
        client = Client(servers, await _create_agents(servers[0], tool_url))
        calm = await asyncio.gather(*(client.play(name) for name in client.agents))
        client.calm_frames = client.frames
        expected = {name: [readable(s) for s in streams] for name, streams in zip(client.agents, calm, strict=True)}
        for number in range(rounds):
            sort = signals[number % len(signals)]
            seen, cut = len(tally.differences), tally.cut
            await _play_round(client, expected, sort, chance.uniform(0.05, 0.7), tally, copies)
            new = tally.differences[seen:]
            report(f"round {number + 1}: {sort.name}, {tally.cut - cut} streams cut, {len(new)} differences\n")
            for problem in new:
                report(f"  {problem}\n")
            if number + 1 < rounds:
                servers.append(await start_replica(settings, key))
    return tally


def main() -> int:
    """Print the differences and the times; return 1 if there is a difference."""
    rounds, seed, copies = (int(word) for word in [*sys.argv[1:], *("20", "0", "1")[len(sys.argv) - 1 :]][:3])
    tally = asyncio.run(disturb(rounds, seed, copies=copies))
    for name, gaps in tally.gaps.items():
        if gaps:
            times = f"{min(gaps):.2f} / {median(gaps):.2f} / {max(gaps):.2f} s"
            sys.stdout.write(
                f"{name}: {len(gaps)} streams cut; longest time without a frame (min / median / max) {times}\n"
            )
    sys.stdout.write(f"{tally.stops} stops, {tally.cut} streams cut, {len(tally.differences)} differences\n")
    return 1 if tally.differences or not tally.cut else 0


if __name__ == "__main__":
    raise SystemExit(main())
