"""Storms on stored sessions, runs, agents and versions."""

from collections.abc import Mapping
from typing import Any

from tests.fakes.canvas import canvas, node, text
from tests.harness.noisy.attack import CHAT, Attack, Attacker, Step, as_mapping
from tests.harness.noisy.plain_canvases import ECHO, FORM, SLOW

LONG_TURNS = 40
"""Turns of the long session that most of these attacks prepare."""


async def _start(attacker: Attacker, dsl: Mapping[str, Any], query: str = "x") -> None:
    """Create an agent and play one turn; keep their ids."""
    agent = attacker.kept["agent"] = await attacker.agent(dsl)
    attacker.kept["path"] = f"/native/v1/agents/{agent}"
    run = as_mapping(await attacker.send("POST", f"{attacker.kept['path']}/runs", json={"query": query}))
    attacker.kept |= {"run": run.get("id"), "last_run": run.get("id"), "session": run.get("session_id")}


def _starting(dsl: Mapping[str, Any], turns: int = 1, query: str = "x") -> Step:
    """Return a preparation: an agent, and a session of some turns."""

    async def prepare(attacker: Attacker) -> None:
        await _start(attacker, dsl, query)
        for _ in range(turns - 1):
            body = {"query": query, "session_id": attacker.kept["session"]}
            run = as_mapping(await attacker.send("POST", f"{attacker.kept['path']}/runs", json=body))
            attacker.kept["last_run"] = run.get("id")

    return prepare


def _post(path: str, body: Any) -> Step:
    async def step(attacker: Attacker) -> None:
        await attacker.send("POST", f"{attacker.kept['path']}{path.format(**attacker.kept)}", json=body)

    return step


def _get(path: str) -> Step:
    async def step(attacker: Attacker) -> None:
        await attacker.send("GET", f"{attacker.kept['path']}{path.format(**attacker.kept)}")

    return step


async def _replay(attacker: Attacker) -> None:
    """Read the same long run again from its first event."""
    body = {"agent_id": attacker.kept["agent"], "stream": True}
    headers = {"Last-Event-ID": f"{attacker.kept['run']}:0"}
    await attacker.send("POST", CHAT, json=body, headers=headers)


async def _odd_replay(attacker: Attacker) -> None:
    body = {"agent_id": attacker.kept["agent"], "stream": True}
    number = "9" * (attacker.count() % 4000)
    await attacker.send("POST", CHAT, json=body, headers={"Last-Event-ID": f"{attacker.kept['run']}:{number}"})


async def _prepare_slow(attacker: Attacker) -> None:
    agent = attacker.kept["agent"] = await attacker.agent(SLOW)
    attacker.kept["path"] = f"/native/v1/agents/{agent}"


async def _delete_while_running(attacker: Attacker) -> None:
    """Start a run in a new session, and delete the session at once."""
    path = attacker.kept["path"]
    made = as_mapping(await attacker.send("POST", f"{path}/sessions", json={}))
    session = made.get("id")
    await attacker.send("POST", f"{path}/runs?mode=background", json={"query": "x", "session_id": session})
    await attacker.send("DELETE", f"{path}/sessions/{session}")


async def _cancel_and_continue(attacker: Attacker) -> None:
    path = attacker.kept["path"]
    run = as_mapping(await attacker.send("POST", f"{path}/runs?mode=background", json={"query": "x"})).get("id")
    await attacker.send("POST", f"{path}/runs/{run}/cancel")
    run = as_mapping(await attacker.send("POST", f"{path}/runs/{run}/continue?mode=background", json={})).get("id")
    await attacker.send("POST", f"{path}/runs/{run}/cancel")


async def _replace_agent(attacker: Attacker) -> None:
    """Create an agent, play it, and delete it."""
    agent = await attacker.agent(ECHO)
    if agent:
        await attacker.chat(agent)
        await attacker.send("DELETE", f"/api/v1/agents/{agent}")


async def _create_agents(attacker: Attacker) -> None:
    await attacker.agent(ECHO)


async def _publish(attacker: Attacker) -> None:
    agent = attacker.kept["agent"]
    dsl = canvas({"m": node("Message", {"content": [f"{attacker.count()}" + "x" * 100_000]})})
    await attacker.send("PUT", f"/api/v1/agents/{agent}", json={"title": "Attack", "dsl": dsl, "release": True})


async def _many_sessions(attacker: Attacker) -> None:
    await attacker.send("POST", f"{attacker.kept['path']}/sessions", json={"name": "x" * 200})


async def _same_session(attacker: Attacker) -> None:
    await attacker.chat(attacker.kept["agent"], session_id=attacker.kept["session"])


async def _large_turns(attacker: Attacker) -> None:
    await attacker.chat(attacker.kept["agent"], "word " * 600_000, session_id=attacker.kept["session"])


_LONG = canvas(
    {f"t{n}": text([f"t{n + 1}"]) for n in range(50)} | {"t50": node("Message", {"content": ["{sys.query}"]})}
)
_RERUN = {"node": "t10", "changes": {"sys.query": "y"}}
_LONG_SESSION = _starting(_LONG, LONG_TURNS)

ATTACKS: list[Attack] = [
    Attack("many-sessions", "sessions without a turn", _many_sessions, _starting(ECHO), at_once=16),
    Attack("one-session", "turns in one session, all at once", _same_session, _starting(ECHO), at_once=64),
    Attack("large-turns", "turns of 3 MB in one session", _large_turns, _starting(ECHO), at_once=2),
    Attack(
        "long-history",
        "steps of a long session",
        _get("/sessions/{session}/history?limit=1000"),
        _LONG_SESSION,
        at_once=16,
    ),
    Attack(
        "history-pages",
        "steps of a long session, one by one",
        _get("/sessions/{session}/history?limit=1"),
        _LONG_SESSION,
        at_once=32,
    ),
    Attack("run-lists", "runs of a long session", _get("/runs?session_id={session}"), _LONG_SESSION, at_once=16),
    Attack("forks", "copies of a long session", _post("/runs/{run}/fork", {}), _LONG_SESSION, at_once=16),
    Attack("reruns", "turns run again from a node", _post("/runs/{last_run}/rerun", _RERUN), _LONG_SESSION, at_once=16),
    Attack(
        "prunes",
        "a session pruned again and again",
        _post("/sessions/{session}/prune", {"keep_turns": 1}),
        _LONG_SESSION,
        at_once=16,
    ),
    Attack(
        "replays", "a run of 1 MB read again and again", _replay, _starting(ECHO, query="x" * 1_000_000), at_once=32
    ),
    Attack("odd-replays", "events with impossible numbers", _odd_replay, _starting(ECHO), at_once=16),
    Attack("deletions", "sessions deleted while they run", _delete_while_running, _starting(ECHO), at_once=16),
    Attack("cancels", "endless runs cancelled and continued", _cancel_and_continue, _prepare_slow, at_once=16),
    Attack(
        "resumes",
        "wrong answers to a form",
        _post("/runs/{run}/resume", {"fields": {"size": "x" * 1_000_000}}),
        _starting(FORM),
        at_once=16,
    ),
    Attack("new-agents", "agents, as many as go", _create_agents, at_once=16),
    Attack("replaced-agents", "agents created, played and deleted", _replace_agent, at_once=16),
    Attack("versions", "versions of 100 KB, as many as go", _publish, _starting(ECHO), at_once=8),
]
