"""A server to measure: ``python -m benchmarks.server_apps WHICH FOLDER`` prints its URL and a key.

``ours`` is our application; ``theirs`` and ``bare`` are written by hand.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from pydantic import SecretStr

from benchmarks import canvases
from benchmarks.by_hand import State
from benchmarks.model_services import services_of
from ragflow_lg.checkpoints import open_store
from ragflow_lg.server.assembly.app_state import AppState, open_run_manager
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.database.tables import MessageRow
from ragflow_lg.server.http.app import make_app
from ragflow_lg.server.http.edge.uvicorn_server import open_socket, run, start_server
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.chat import ChatDelta, ChatRequest

NODES = 3
PIECES = 1200
PIECE_S = 0.1


class SlowModel:
    """A model that streams ten pieces per second for two minutes."""

    context_tokens = 8192
    has_vision = False
    has_tools = False
    has_schemas = False

    async def complete(self, request: ChatRequest) -> str:
        """Return an empty answer."""
        return ""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatDelta]:
        """Yield a piece at regular intervals."""
        for number in range(PIECES):
            yield ChatDelta(f"word{number} ")
            await asyncio.sleep(PIECE_S)


def canvas() -> dict[str, Any]:
    """Return Begin, `NODES` nodes and a Message."""
    document = canvases.chain(NODES)
    last = f"n{NODES - 1}"
    document["components"][last]["downstream"] = ["Message:0"]
    document["components"]["Message:0"] = canvases.component("Message", {"content": [f"{{{last}@result}}"]}, [])
    return document


def graph_by_hand() -> Any:
    """Return a builder for the same graph, written by hand."""
    builder, previous = StateGraph(State), START
    for name in ["begin", *(f"n{i}" for i in range(NODES)), "message"]:

        async def node(state: State, name: str = name) -> State:
            return {"outputs": {name: {"result": "hello q"}}}

        builder.add_node(name, node)
        builder.add_edge(previous, name)
        previous = name
    return builder


@asynccontextmanager
async def ours(folder: Path) -> AsyncGenerator[tuple[Any, Any, str]]:
    """Yield our application, the function that drains it, and an API key; the default model is a slow one."""
    checkpoints = f"sqlite:///{folder}/ours-checkpoints.db"
    section = ServerSection(database=SecretStr(f"sqlite:///{folder}/ours.db"))
    settings = Settings(checkpoints=checkpoints, server=section)
    async with (
        open_database(section.database.get_secret_value()) as database,
        open_store(checkpoints) as store,
        open_run_manager(settings, store) as run_manager,
    ):
        app = make_app(AppState(settings, database, store, services_of(SlowModel()), run_manager))
        yield app, app.state.turns.playing.drain, await KeyRepository(database).create("bench", 1)


@asynccontextmanager
async def _open_saver(which: str, folder: Path) -> AsyncGenerator[Any]:
    """Yield our saver, or LangGraph's own."""
    path = f"{folder}/{which}-checkpoints.db"
    if which == "bare":
        async with AsyncSqliteSaver.from_conn_string(path) as saver:
            yield saver
    else:
        async with open_store(f"sqlite:///{path}") as store:
            yield store.saver


@asynccontextmanager
async def by_hand(which: str, folder: Path) -> AsyncGenerator[tuple[Any, Any, str]]:
    """Yield a minimal application that streams the same graph and stores sessions and one row per message.

    It stores checkpoints with our saver (``theirs``) or with LangGraph's (``bare``).
    """
    async with open_database(f"sqlite:///{folder}/{which}.db") as database, _open_saver(which, folder) as saver:
        graph = graph_by_hand().compile(checkpointer=saver)
        app = FastAPI()

        async def write(session: str, number: int, role: str, content: str) -> None:
            row = MessageRow(tenant="t", session_id=session, number=number, role=role, content=content, create_ms=1)
            async with database.writing() as writing:
                writing.add(row)

        @app.post("/chat")
        async def chat(request: Request) -> StreamingResponse:  # pyright: ignore[reportUnusedFunction] - FastAPI registers it
            body = orjson.loads(await request.body())
            session = uuid.uuid4().hex
            await write(session, 0, "user", body["query"])

            async def frames() -> AsyncGenerator[bytes]:
                config: Any = {"configurable": {"thread_id": session}}
                async for update in graph.astream({"outputs": {}}, config, durability="sync"):
                    yield b"data:" + orjson.dumps(update) + b"\n\n"
                await write(session, 1, "assistant", "hello q")
                yield b"data:[DONE]\n\n"

            return StreamingResponse(frames(), media_type="text/event-stream")

        async def drain() -> None:
            pass

        yield app, drain, "none"


async def _serve(which: str, folder: Path) -> None:
    opened = ours(folder) if which == "ours" else by_hand(which, folder)
    async with opened as (app, drain, key), start_server(app, open_socket("127.0.0.1", 0), drain, 1) as url:
        sys.stdout.write(f"{url} {key}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    run(_serve(sys.argv[1], Path(sys.argv[2])))
