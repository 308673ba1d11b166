"""Write what clients receive, byte by byte, to ``tests/fixtures/recorded_streams``.

``python -m tests.harness.recorded_streams [FOLDER]`` plays a few canvases over each API and writes one file for each.
Ids and times differ from run to run and are replaced. Clients rely on these bytes, so a file changes only if the
changelog says how.
"""

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct, field

from ragflow_lg.server.database.key_repository import KeyRepository
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.services import Reply
from tests.server.http.app_server import BROKEN, CITING, FORM, MODEL, RETRYING, AppServer, canvas, start_app

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "recorded_streams"
_ID = re.compile(rb"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME_NAMES = (
    *("created", "created_at", "_created_time", "start_ms", "end_ms", "elapsed_time", "_elapsed_time"),
    *("seconds", "total_seconds", "model_seconds", "tool_seconds"),
)
_TIME = re.compile(rf'("(?:{"|".join(_TIME_NAMES)})":)[0-9.]+(?:e-?[0-9]+)?'.encode())
_RECORDS = {"records": "true"}


class Turn(Struct):
    """What a user sends."""

    query: str = ""
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    """The fields of an answered form."""


class Case(Struct):
    """A canvas, what the user sends, and the answers of the model, which are the same for each API."""

    name: str
    dsl: dict[str, Any]
    turns: Sequence[Turn] = (Turn("Hello?"),)
    replies: Sequence[Reply] = ()
    file: bytes = b""
    """The content of a text file that is attached to each turn."""
    has_all_apis: bool = False
    """Whether the case is also played over the APIs that show the same events in similar frames."""


def _read(path: str) -> dict[str, Any]:
    document = json.loads((ROOT / path).read_text("utf-8"))
    return document.get("dsl", document)


_FILES = canvas(("begin", "Begin", {}, ["Message:0"]), ("Message:0", "Message", {"content": ["Read: {sys.files}"]}, []))
_ASKS_AGENT = {"name": "Fact_Finder_0", "arguments": {"user_prompt": "When is the market?"}}

CASES: Sequence[Case] = (
    Case("form", FORM, [Turn("A shirt"), Turn(inputs={"size": "large"}), Turn(inputs={"size": 42})], has_all_apis=True),
    Case("model", MODEL, [Turn("Grüße, 你好?")], [Reply("Good day to you.")]),
    Case("split_emoji", MODEL, replies=[Reply(chunks=["Hi \ud83d", "\ude00 and \N{GRINNING FACE}", "!"])]),
    Case("switch", _read("tests/fixtures/crash/routed.json")),
    Case("categorize", _read("examples/customer_service_router.json"), replies=[Reply("Other")]),
    Case("loop", _read("tests/fixtures/crash/loop.json")),
    Case("iteration", _read("examples/iteration.json"), [Turn("red")]),
    Case(
        "agent",
        _read("examples/travel_guide.json"),
        [Turn("Where to in May?")],
        [
            Reply("The market is on Mondays.", match="You find facts"),
            Reply("Let me ask. ", match="Where to in May?", calls=[_ASKS_AGENT]),
            Reply("Go on a Monday."),
        ],
    ),
    Case("citations", CITING, replies=[Reply(chunks=["Rice needs", " water [ID", ":0]. Tea", " likes hills [ID:1]."])]),
    Case("files", _FILES, file=b"some notes"),
    Case("rescued", _read("tests/fixtures/crash/failing.json")),
    Case("error", BROKEN, replies=[Reply(chunks=["Half an "], error="The model is gone.")]),
    Case("retry", RETRYING, replies=[Reply(chunks=["Half "], error="Busy."), Reply("Whole.")]),
)


class Player:
    """A client that plays the turns of a case over one API, in one session."""

    def __init__(self, server: AppServer, agent_id: str, beta: str, files: list[Any]) -> None:
        self._client = server.client
        self._url = server.url
        self._agent_id = agent_id
        self._beta = beta
        self._files = files
        self._session_id = self._run_id = ""

    async def ragflow_stream(self, turn: Turn) -> httpx.Response:
        """Stream with all events."""
        return await self._complete(turn, stream=True)

    async def ragflow_answer(self, turn: Turn) -> httpx.Response:
        """Ask without a stream."""
        return await self._complete(turn)

    async def openai_stream(self, turn: Turn) -> httpx.Response:
        """Stream OpenAI's chunks."""
        return await self._chat(turn, stream=True)

    async def openai_answer(self, turn: Turn) -> httpx.Response:
        """Ask for OpenAI's answer."""
        return await self._chat(turn)

    async def openai_response(self, turn: Turn) -> httpx.Response:
        """Stream the events of a response."""
        body = {"model": self._agent_id, "input": turn.query, "stream": True, **self._fields(turn)}
        return self._remember(await self._client.post(f"{self._url}/v1/responses", json=body), "session_id")

    async def native_stream(self, turn: Turn) -> httpx.Response:
        """Stream the events of a run, with the records of agents."""
        body: dict[str, Any] = {"query": turn.query, "inputs": turn.inputs, "files": self._files}
        if turn.inputs:
            body["resume_from"] = self._run_id
        elif self._session_id:
            body["session_id"] = self._session_id
        answer = await self._client.post(f"{self._native}/stream", json=body, params=_RECORDS)
        if found := re.search('"run_id":"([0-9a-f]+)","session_id":"([0-9a-f]+)"', answer.text):
            self._run_id, self._session_id = found.groups()
        return answer

    async def native_follow(self, turn: Turn) -> httpx.Response:
        """Follow a run that has been streamed, from its third event."""
        answer = await self.native_stream(turn)
        if not answer.is_success:
            return answer
        return await self._client.get(f"{self._native}/{self._run_id}/events", params={"from": "3", **_RECORDS})

    async def ragflow_trace(self, turn: Turn) -> httpx.Response:
        """Stream in a session that the client has made, with the trace of the nodes."""
        if not self._session_id:
            made = await self._client.post(f"/agents/{self._agent_id}/sessions", json={})
            self._session_id = made.json()["data"]["id"]
        return await self._complete(turn, stream=True, return_trace=True)

    async def ragflow_resumed(self, turn: Turn) -> httpx.Response:
        """Resume a stream after its second event."""
        whole = await self._complete(turn, {"X-RAGFlow-Event-Ids": "true"}, stream=True)
        run = re.match("id:([0-9a-f]+):", whole.text)
        return whole if run is None else await self._complete(turn, {"Last-Event-ID": f"{run[1]}:2"}, stream=True)

    async def ragflow_oldest(self, turn: Turn) -> httpx.Response:
        """Stream over the path of the oldest clients."""
        return await self._complete(turn, path=f"/agents/{self._agent_id}/completions", stream=True)

    async def page(self, turn: Turn) -> httpx.Response:
        """Stream as an embedded page does."""
        head = {"Authorization": f"Bearer {self._beta}"}
        return await self._complete(turn, head, path=f"/agentbots/{self._agent_id}/completions")

    @property
    def _native(self) -> str:
        return f"{self._url}/native/v1/agents/{self._agent_id}/runs"

    async def _complete(
        self, turn: Turn, head: dict[str, str] | None = None, *, path: str = "/agents/chat/completions", **values: Any
    ) -> httpx.Response:
        body = {"agent_id": self._agent_id, "query": turn.query, **self._fields(turn), **values}
        return self._remember(await self._client.post(path, json=body, headers=head), "session_id")

    async def _chat(self, turn: Turn, **values: Any) -> httpx.Response:
        messages = [{"role": "user", "content": turn.query}] if turn.query else []
        body = {"model": self._agent_id, "messages": messages, **self._fields(turn), **values}
        return self._remember(await self._client.post(f"{self._url}/v1/chat/completions", json=body), "id")

    def _fields(self, turn: Turn) -> dict[str, Any]:
        fields: dict[str, Any] = {"files": self._files}
        if turn.inputs:
            fields["inputs"] = {name: {"value": value} for name, value in turn.inputs.items()}
        return fields | ({"session_id": self._session_id} if self._session_id else {})

    def _remember(self, answer: httpx.Response, name: str) -> httpx.Response:
        if answer.is_success and (found := re.search(f'"{name}":"([0-9a-f]+)"', answer.text)):
            self._session_id = found[1]
        return answer


_Play = Callable[[Player, Turn], Awaitable[httpx.Response]]
MAIN_APIS: Sequence[_Play] = (
    Player.ragflow_stream,
    Player.ragflow_answer,
    Player.openai_stream,
    Player.openai_answer,
    Player.openai_response,
    Player.native_stream,
)
SIMILAR_APIS: Sequence[_Play] = (
    Player.native_follow,
    Player.ragflow_trace,
    Player.ragflow_resumed,
    Player.ragflow_oldest,
    Player.page,
)


async def record(case: Case, folder: Path) -> bytes:
    """Play a case over its APIs; return what the clients received, without the ids and times."""
    parts: list[bytes] = []
    async with start_app(folder, knowledge=FakeKnowledge()) as server:
        beta = await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta")
        agent_id = await server.agent(case.dsl)
        files: list[Any] = []
        if case.file:
            sent = {"file": ("notes.txt", case.file, "text/plain")}
            files.append((await server.client.post(f"/agents/{agent_id}/upload", files=sent)).json()["data"])
        for play in (*MAIN_APIS, *(SIMILAR_APIS if case.has_all_apis else ())):
            player = Player(server, agent_id, beta, files)
            server.model.replies, server.model.call_count = list(case.replies), 0
            received: list[bytes] = []
            for number, turn in enumerate(case.turns, 1):
                answer = await play(player, turn)
                head = f"=== {play.__name__}, turn {number}: {answer.status_code} {answer.headers['content-type']}\n"
                received += [head.encode(), answer.content, b"\n"]
            parts.append(normalize(b"".join(received)))
    return b"".join(parts)


def normalize(text: bytes) -> bytes:
    """Replace each id by a number, in the order in which they occur, and each time by 0.

    >>> normalize(b'{"id":"0123456789abcdef0123456789abcdef","created_at":1700000000.25}')
    b'{"id":"id-1","created_at":0}'
    """
    ids: dict[bytes, bytes] = {}
    text = _ID.sub(lambda found: ids.setdefault(found[0], b"id-%d" % (len(ids) + 1)), text)
    return _TIME.sub(rb"\g<1>0", text)


def main() -> int:
    """Write the recordings of all cases to a folder."""
    to = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    to.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            (to / f"{case.name}.txt").write_bytes(asyncio.run(record(case, Path(folder))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
