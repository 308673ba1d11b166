"""What clients do while a process ends at some command, and what must be true afterwards."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import httpx

from tests.harness.death_stage import Stage
from tests.server.http.app_server import canvas

PATH = "/agents/chat/completions"
LIMIT_S = 30.0
"""How long a client waits after the last death."""
SETTLE_S = 8.0
"""How long the queue may take to be empty after the last event."""
PIECES = ["w1 ", "w2"]
SLOW_PIECES = ["slow "] * 60
RULES = {
    "rules": [
        {"when": {"user": "slow"}, "replies": [{"text": SLOW_PIECES, "piece_delay_s": 0.25}]},
        {"replies": [{"text": PIECES}]},
    ]
}
Node: TypeAlias = tuple[str, str, dict[str, Any], list[str]]

_FORM = {"size": {"name": "Size", "type": "integer", "value": 42}}


def canvases(address: str) -> dict[str, dict[str, Any]]:
    """Return the canvases of the scenes by name. Each calls services and a model in turn."""

    def call(number: int, to: str) -> Node:
        variables = [{"key": "turn", "ref": "sys.query", "value": ""}]
        params = {"url": f"{address}/{number}", "method": "get", "variables": variables}
        return f"Invoke:{number}", "Invoke", params, [to]

    def model(to: str, prompt: str) -> Node:
        prompts = [{"role": "user", "content": f"2 for {{sys.query}}.{prompt}"}]
        return "LLM:2", "LLM", {"llm_id": "m", "prompts": prompts}, [to]

    def message(content: str, *to: str) -> Node:
        return f"Message:{len(to)}", "Message", {"content": [content]}, list(to)

    begin: Node = ("begin", "Begin", {}, ["Invoke:1"])
    return {
        "steps": canvas(
            begin,
            call(1, "LLM:2"),
            model("Message:1", ""),
            message("{LLM:2@content}", "Invoke:3"),
            call(3, "Message:0"),
            message(" and {Invoke:3@result}"),
        ),
        "form": canvas(
            begin,
            call(1, "UserFillUp:0"),
            ("UserFillUp:0", "UserFillUp", {"inputs": _FORM}, ["Invoke:3"]),
            call(3, "Message:0"),
            message("Size {UserFillUp:0@size}"),
        ),
        "slow": canvas(begin, call(1, "LLM:2"), model("Message:0", "slow"), message("{LLM:2@content}")),
    }


ANSWER = f"{''.join(PIECES)} and three"


@dataclass
class Stream:
    """What a client has received of one turn, over all of its connections."""

    text: str = ""
    ends: int = 0
    forms: int = 0
    last: str = ""


@dataclass
class Scene:
    """One client with a session of its own."""

    stage: Stage
    agents: Mapping[str, str]
    turn: str
    """The query of its turn, by which its effects are recorded."""
    problems: list[str] = field(default_factory=list[str])
    until: float = 0.0
    """When the client gives up. It is moved when a process dies."""
    agent: str = ""
    session: str = ""

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to the native API, again if the server dies."""
        while True:
            try:
                url = f"{self.stage.native(self.agent)}{path}"
                return await self.stage.server.client.request(method, url, **options)
            except httpx.TransportError:
                await self.pause()

    async def pause(self) -> None:
        """Wait a moment.

        Raises:
            TimeoutError: If it has taken too long.
        """
        if time.monotonic() > self.until:
            raise TimeoutError(f"nothing after {LIMIT_S:g} s")
        await asyncio.sleep(0.05)

    async def open(self, name: str) -> None:
        """Use an agent, with a new session."""
        self.agent = self.agents[name]
        self.session = (await self.ask("POST", "/sessions", json={})).json()["id"]

    async def follow(self, **body: Any) -> Stream:
        """Take a turn. Repeat its request until the stream has ended."""
        stream, id_ = Stream(), ""
        request = {"agent_id": self.agent, "session_id": self.session, "stream": True, **body}
        while True:
            headers = {"X-RAGFlow-Event-Ids": "true", **({"Last-Event-ID": stream.last} if stream.last else {})}
            try:
                client = self.stage.server.client
                async with client.stream("POST", PATH, json=request, headers=headers) as answer:
                    async for line in answer.aiter_lines():
                        if time.monotonic() > self.until:
                            raise TimeoutError(f"no end after {LIMIT_S:g} s: {stream}")
                        if line.startswith("id:"):
                            id_ = line[3:]
                        elif line == "data:[DONE]":
                            return stream
                        elif line.startswith("data:"):
                            self._note(stream, json.loads(line[5:]))
                            stream.last = id_ or stream.last
            except httpx.TransportError:
                pass
            await self.pause()

    def _note(self, stream: Stream, frame: Any) -> None:
        fields = cast("dict[str, Any]", frame) if isinstance(frame, dict) else {}
        kind = fields.get("event")
        if kind == "message":
            stream.text += fields["data"]["content"]
        elif kind == "workflow_finished":
            stream.ends += 1
        elif kind == "user_inputs":
            stream.forms += 1
        elif kind is None and fields.get("code"):
            self.problems.append(f"an error in the stream: {fields}")

    def expect(self, what: str, found: Any, expected: Any) -> None:
        """Note a problem unless two values are equal."""
        if found != expected:
            self.problems.append(f"{what}: {found!r} instead of {expected!r}")

    async def runs(self, session: str = "") -> list[dict[str, Any]]:
        """Return the runs of the agent, newest first, or those in a session."""
        path = f"/runs?page_size=100{f'&session_id={session}' if session else ''}"
        return (await self.ask("GET", path)).json()["runs"]

    async def wait_for(self, is_reached: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until something is true."""
        while not await is_reached():
            try:
                await self.pause()
            except TimeoutError:
                raise TimeoutError(f"{what} after {LIMIT_S:g} s; runs: {await self.statuses()}") from None

    async def statuses(self, session: str = "") -> list[str]:
        """Return the states of the runs, newest first."""
        return [run["status"] for run in await self.runs(session or self.session)]


Play = Callable[[Scene], Awaitable[None]]


class SceneKind:
    """A kind of scene: what is done before a process is to end, what is done then, and the states of its runs."""

    def __init__(self, prepare: Play, play: Play, check: Play) -> None:
        self.prepare = prepare
        self.play = play
        self.check = check


async def _open_steps(scene: Scene) -> None:
    await scene.open("steps")


async def _take_turn(scene: Scene) -> None:
    stream = await scene.follow(query=scene.turn)
    scene.expect("the stream", (stream.text, stream.ends), (ANSWER, 1))


def _texts(session: Any) -> list[str]:
    """Return the messages of a session after its prologue, if it has one."""
    texts = [message["content"] for message in session["messages"]]
    return texts[1:] if session["messages"][0]["role"] == "assistant" else texts


async def _check_messages(scene: Scene, texts: Sequence[str], *lasting: str) -> None:
    """Check that a session has these messages, and that no run but those ``lasting`` is unfinished."""
    whole = (await scene.ask("GET", f"/sessions/{scene.session}")).json()
    scene.expect("the messages", _texts(whole), list(texts))
    scene.expect("whether the session is busy", whole["is_busy"], False)
    unfinished = [status for status in await scene.statuses() if status not in ("succeeded", "refused", *lasting)]
    scene.expect("unfinished runs", unfinished, [])


async def _check_turn(scene: Scene) -> None:
    await _check_messages(scene, [scene.turn, ANSWER])
    scene.expect("runs that succeeded", (await scene.statuses()).count("succeeded"), 1)
    stream = await scene.follow(query=f"{scene.turn}-next")
    scene.expect("the next turn", (stream.text, stream.ends), (ANSWER, 1))


async def _open_form(scene: Scene) -> None:
    await scene.open("form")


async def _fill_form(scene: Scene) -> None:
    stream = await scene.follow(query=scene.turn)
    scene.expect("the form", (stream.forms, stream.ends), (1, 0))
    stream = await scene.follow(inputs={"size": {"value": 7}})
    scene.expect("the answer", (stream.text, stream.ends), ("Size 7", 1))


async def _check_form(scene: Scene) -> None:
    statuses = [status for status in await scene.statuses() if status != "refused"]
    scene.expect("the runs", statuses, ["succeeded", "answered"])
    whole = (await scene.ask("GET", f"/sessions/{scene.session}")).json()
    texts = _texts(whole)
    scene.expect("the question", texts[:1], [scene.turn])
    scene.expect("the last message", texts[-1:], ["Size 7"])
    scene.expect("the number of messages", len(texts), 4)


async def _open_slow(scene: Scene) -> None:
    await scene.open("slow")


async def _cancel(scene: Scene) -> None:
    """Cancel a turn as soon as there is a run."""
    following = asyncio.create_task(scene.follow(query=scene.turn))
    try:

        async def has_run() -> bool:
            return bool(await scene.runs(scene.session))

        await scene.wait_for(has_run, "no run")
        run = (await scene.runs(scene.session))[0]
        answer = await scene.ask("POST", f"/runs/{run['id']}/cancel")
        scene.expect("the cancellation", answer.status_code, 202)

        async def has_ended() -> bool:
            states = [each["status"] for each in await scene.runs(scene.session) if each["id"] == run["id"]]
            return states != ["running"]

        await scene.wait_for(has_ended, "the cancelled run has not ended")
        run_states = [each["status"] for each in await scene.runs(scene.session) if each["id"] == run["id"]]
        allowed = ("cancelled", "refused", *(("interrupted",) if scene.stage.place == "alone" else ()))
        if run_states[0] not in allowed:
            scene.problems.append(f"the cancelled run is {run_states[0]}")
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    for again in await scene.runs(scene.session):
        if again["status"] == "running":  # the client had repeated its request
            await scene.ask("POST", f"/runs/{again['id']}/cancel")


async def _check_cancelled(scene: Scene) -> None:
    async def is_free() -> bool:
        return not (await scene.ask("GET", f"/sessions/{scene.session}")).json()["is_busy"]

    await scene.wait_for(is_free, "the session is busy")


async def _open_schedule(scene: Scene) -> None:
    made = await scene.stage.server.client.post(
        "/agents", json={"title": scene.turn, "dsl": scene.stage.effects.canvases["steps"]}
    )
    scene.agent = made.json()["data"]["id"]
    body = {"cron": "0 0 1 1 *", "query": scene.turn}
    scene.expect("the schedule", (await scene.ask("POST", "/schedules", json=body)).status_code, 201)


async def _wait_for_schedule(scene: Scene) -> None:
    await scene.stage.rows(f"UPDATE schedules SET due_ms = 0 WHERE agent_id = '{scene.agent}'")

    async def has_ended() -> bool:
        schedule = (await scene.ask("GET", "/schedules")).json()["schedules"][0]
        runs = await scene.runs()
        return bool(schedule["last_run_id"]) and bool(runs) and runs[0]["status"] != "running"

    await scene.wait_for(has_ended, "the scheduled run has not ended")


async def _check_schedule(scene: Scene) -> None:
    runs = await scene.runs()
    allowed = [["succeeded"], *([["interrupted"]] if scene.stage.place == "alone" else [])]
    if [run["status"] for run in runs] not in allowed:
        scene.problems.append(f"the scheduled runs: {[run['status'] for run in runs]}")
    row = (await scene.stage.rows(f"SELECT run_id, due_ms, error FROM schedules WHERE agent_id = '{scene.agent}'"))[0]
    scene.expect("the schedule", (row[0], row[1] > time.time() * 1000, row[2]), ("", True, ""))
    if len(runs) == 1:
        scene.session = runs[0]["session_id"]
        count = await scene.stage.rows(f"SELECT count(*) FROM sessions WHERE agent_id = '{scene.agent}'")
        scene.expect("sessions", count[0][0], 1)
        if runs[0]["status"] == "succeeded":
            await _check_messages(scene, [scene.turn, ANSWER])


async def _open_pause(scene: Scene) -> None:
    await scene.open("form")
    stream = await scene.follow(query=scene.turn)
    scene.expect("the form", stream.forms, 1)
    await asyncio.sleep(0.2)


async def _wait_for_timeout(scene: Scene) -> None:
    now = int(time.time() * 1000)
    columns = "tenant, session_id, agent_id, run_id, expire_ms, due_ms"
    values = f"SELECT tenant, session_id, agent_id, id, {now}, {now} FROM runs WHERE session_id = '{scene.session}'"
    await scene.stage.rows(f"INSERT INTO pause_timeouts ({columns}) {values}")

    async def is_answered() -> bool:
        return not await scene.stage.rows(
            f"SELECT session_id FROM pause_timeouts WHERE session_id = '{scene.session}'"
        ) and (await scene.statuses())[0] not in ("running", "waiting")

    await scene.wait_for(is_answered, "the form is not answered")


async def _check_timeout(scene: Scene) -> None:
    states = [status for status in await scene.statuses() if status != "refused"]
    allowed = [["succeeded", "answered"], *([["interrupted", "answered"]] if scene.stage.place == "alone" else [])]
    if states not in allowed:
        scene.problems.append(f"the runs: {states}")


async def _open_turn(scene: Scene) -> None:
    await scene.open("steps")
    await _take_turn(scene)
    scene.stage.effects.steps.pop(scene.turn, None)


async def _rerun(scene: Scene) -> None:
    run = (await scene.runs(scene.session))[0]["id"]
    answer = await scene.ask("POST", f"/runs/{run}/rerun", json={"node": "LLM:2"}, params={"mode": "wait"})
    while answer.status_code >= 500 or answer.status_code == 409:
        await scene.pause()
        answer = await scene.ask("POST", f"/runs/{run}/rerun", json={"node": "LLM:2"}, params={"mode": "wait"})
    body = answer.json()
    if answer.status_code != 200:
        scene.problems.append(f"the rerun: {answer.status_code} {answer.text}")
        return
    scene.expect("the rerun", (body["status"], body["answer"]), ("succeeded", ANSWER))
    scene.session = body["session_id"]


async def _check_rerun(scene: Scene) -> None:
    await _check_messages(scene, [scene.turn, ANSWER])


async def _fork(scene: Scene) -> None:
    run = (await scene.runs(scene.session))[0]["id"]
    answer = await scene.ask("POST", f"/runs/{run}/fork", json={})
    while answer.status_code >= 500 or answer.status_code == 409:
        await scene.pause()
        answer = await scene.ask("POST", f"/runs/{run}/fork", json={})
    if answer.status_code != 201:
        scene.problems.append(f"the fork: {answer.status_code} {answer.text}")
        return
    scene.session = answer.json()["session_id"]


KINDS = {
    "turn": SceneKind(_open_steps, _take_turn, _check_turn),
    "form": SceneKind(_open_form, _fill_form, _check_form),
    "cancel": SceneKind(_open_slow, _cancel, _check_cancelled),
    "schedule": SceneKind(_open_schedule, _wait_for_schedule, _check_schedule),
    "timeout": SceneKind(_open_pause, _wait_for_timeout, _check_timeout),
    "rerun": SceneKind(_open_turn, _rerun, _check_rerun),
    "fork": SceneKind(_open_turn, _fork, _check_turn),
}


async def settle(scene: Scene) -> None:
    """Check that the queue gets empty."""
    until = time.monotonic() + SETTLE_S
    while (state := await scene.stage.queue_state()).open:
        if time.monotonic() > until:
            scene.problems.append(f"the queue is not empty: {state}")
            return
        await asyncio.sleep(0.05)
