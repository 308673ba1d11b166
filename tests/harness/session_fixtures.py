"""Write sessions in today's format to ``tests/fixtures/sessions/FORMAT``: ``python -m tests.harness.session_fixtures``.

Later versions must read them. A folder is written once, when the format is new, and never again.
"""

import asyncio
import hashlib
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from ragflow_lg.adapters.system_services import RandomIds, SystemClock
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.steps.checkpoint_texts import FORMAT
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.encryption import EncryptionKey
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.regions import form, loop, out, text
from tests.fakes.services import fake_services
from tests.harness.redis_server import redis_server
from tests.stores import redis_client, redis_keys

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sessions"
ENCRYPTED = FIXTURES.with_name("encrypted_sessions")
KEY = EncryptionKey("fixture", b"f" * 32)
PREFIX = "fixture:"
WAITING, LONG, WIDE = "fixture-waiting", "fixture-long", "fixture-wide"
LONG_TURNS = 10
"""Enough for blocks of a long list."""
WIDTH = 40
"""Enough nodes for groups of the versions of channels."""
STEP = "0" * 32

_WAITING = {
    **loop({"in": node("Message", {"content": "round"})}),
    "out": node("Message", {"content": ["{sys.query}"]}, ["ask"]),
    "ask": form("size", downstream=["end"]),
    "end": node("Message", {"content": ["Size {ask@size}"]}),
}


def runner_on(store: Store, folder: Path, session: str) -> Runner:
    """Return a runner with the canvas of a session."""
    document = json.loads((folder / f"{session}.json").read_text("utf-8"))
    # Runs have different ids and begin at different times.
    services = replace(fake_services(), ids=RandomIds(), clock=SystemClock())
    return Runner(compile_canvas(document, CATALOG), services, store=store)


async def play(run: Any) -> str:
    """Play a run and return its answer."""
    async for _ in run:
        pass
    return run.answer


async def fill(store: Store, folder: Path) -> None:
    """Play the sessions: one waits in its second turn, one has many turns, and one many nodes."""
    runner = runner_on(store, folder, WAITING)
    await play(runner.start(WAITING, {"query": "first " + "a" * 1500}))
    await play(runner.resume(WAITING, {"size": "1"}))
    await play(runner.start(WAITING, {"query": "second " + "ü\x00b" * 500}))
    await store.saver.steps(step_config()).put(STEP, {"done": "x" * 1100})
    newest = await anext(aiter(store.runs.of_session(WAITING)))
    await store.traces.put(newest, [{"component_id": "a", "trace": [{"tool_name": "ü"}]}])
    runner = runner_on(store, folder, LONG)
    for number in range(LONG_TURNS):
        await play(runner.start(LONG, {"query": f"question {number}"}))
    await play(runner_on(store, folder, WIDE).start(WIDE, {"query": "wide"}))


def step_config() -> Any:
    """Return the config of the thread that has the result of a step."""
    return {"configurable": {"thread_id": str(thread_of_session(WAITING))}}


async def read_states(store: Store, folder: Path, session: str) -> dict[str, str]:
    """Return a hash of the state at each step of a session, by checkpoint."""
    runner = runner_on(store, folder, session)
    states: dict[str, str] = {}
    async for step in runner.history(session):
        values: Any = {} if step.region else await runner.state_at(session, step.checkpoint)
        text = json.dumps([step.region, step.next, values], sort_keys=True, default=list)
        states[step.checkpoint] = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return states


async def dump_keys(url: str) -> AsyncIterator[str]:
    """Yield the keys of all sessions in a Redis server as lines of JSON."""
    client: Any = redis_client(url)
    readers: dict[str, Callable[[str], Any]] = {
        "string": client.get,
        "hash": client.hgetall,
        "set": client.smembers,
        "zset": partial(client.zrange, start=0, end=-1, withscores=True),
        "ReJSON-RL": partial(client.execute_command, "JSON.GET"),
    }
    for key in await redis_keys(client, "*"):
        kind = (await client.type(key)).decode()
        if "active-session" not in key:
            yield json.dumps([key, kind, _texts(await readers[kind](key))])
    await client.aclose()


async def restore_keys(url: str, lines: list[str], prefix: str) -> None:
    """Store what `dump_keys` returned under another prefix."""
    client: Any = redis_client(url)
    for line in lines:
        key, kind, value = json.loads(line.replace(PREFIX, prefix))
        if kind == "hash":
            await client.hset(key, mapping=value)
        elif kind == "set":
            await client.sadd(key, *value)
        elif kind == "zset":
            await client.zadd(key, dict(value))
        elif kind == "ReJSON-RL":
            await client.execute_command("JSON.SET", key, "$", value)
        else:
            await client.set(key, value)
    await client.aclose()


def _texts(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {_texts(key): _texts(part) for key, part in cast("dict[Any, Any]", value).items()}
    if isinstance(value, set):
        return sorted(map(_texts, cast("set[Any]", value)))
    return [_texts(part) for part in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


async def _write_encrypted(folder: Path, plain: Path, work: Path) -> None:
    """Write a store whose sessions are encrypted with the key of the fixtures."""
    async with open_store(f"sqlite:///{work}/encrypted.db", SystemClock(), keys=[KEY]) as store:
        await fill(store, plain)
        expected = {session: await read_states(store, plain, session) for session in (WAITING, LONG)}
    (folder / "states.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")
    with sqlite3.connect(work / "encrypted.db") as connection:
        connection.execute("VACUUM INTO ?", (str(folder / "sessions.db"),))


async def _write(folder: Path, url: str, work: Path) -> None:
    names = [f"t{number}" for number in range(WIDTH)]
    chain = {name: text([after], "{sys.query}") for name, after in zip(names, [*names[1:], "out"], strict=True)}
    wide = canvas({**chain, **out("{t9@result}")}, first=names[:1])
    documents = {WAITING: canvas(_WAITING), LONG: canvas(out("{sys.query}")), WIDE: wide}
    for session, document in documents.items():
        (folder / f"{session}.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    expected: dict[str, Any] = {}
    for kind, address in (("sqlite", f"sqlite:///{work}/sessions.db"), ("redis", url)):
        async with open_store(address, SystemClock(), prefix=PREFIX) as store:
            await fill(store, folder)
            expected[kind] = {session: await read_states(store, folder, session) for session in documents}
    (folder / "states.json").write_text(json.dumps(expected, indent=1) + "\n", "utf-8")
    (folder / "redis.jsonl").write_text("".join([line + "\n" async for line in dump_keys(url)]), "utf-8")
    with sqlite3.connect(work / "sessions.db") as connection:
        connection.execute("VACUUM INTO ?", (str(folder / "sessions.db"),))


def main() -> None:
    """Write the folder of today's format."""
    folder, encrypted = FIXTURES / str(FORMAT), ENCRYPTED / str(FORMAT)
    with redis_server() as url, tempfile.TemporaryDirectory() as work:
        if not folder.exists():  # an older one must not change
            folder.mkdir(parents=True)
            asyncio.run(_write(folder, url, Path(work)))
        encrypted.mkdir(parents=True)
        asyncio.run(_write_encrypted(encrypted, folder, Path(work)))


if __name__ == "__main__":
    main()
