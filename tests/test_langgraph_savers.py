"""A canvas with forms on LangGraph's own checkpointers: it pauses, and goes on when it is opened again."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from ragflow_lg import load_canvas
from tests.architecture.sources import ROOT
from tests.stores import redis_client

FORMS = ROOT / "examples" / "order_form.json"


@asynccontextmanager
async def redis_saver(url: str) -> AsyncGenerator[AsyncRedisSaver]:
    """Open LangGraph's saver for Redis."""
    async with AsyncRedisSaver(redis_client=redis_client(url)) as saver:
        yield saver


@pytest.mark.parametrize("kind", ["redis", "sqlite"])
async def test_forms_wait_on_a_checkpointer_of_langgraph(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    url = request.getfixturevalue("redis_url") if kind == "redis" else ""

    def open_saver() -> AbstractAsyncContextManager[BaseCheckpointSaver[Any]]:
        return redis_saver(url) if url else AsyncSqliteSaver.from_conn_string(str(tmp_path / "langgraph.db"))

    thread: RunnableConfig = {"configurable": {"thread_id": str(uuid4())}}
    async with open_saver() as saver:
        graph = load_canvas(FORMS, model="demo", checkpointer=saver)
        state: Any = await graph.ainvoke({"query": "Order"}, thread)
        ids = {pause.value["component_id"]: pause.id for pause in state["__interrupt__"]}
    answers = {ids["UserFillUp:Shirt"]: {"colour": "red", "size": 42}, ids["UserFillUp:Shoes"]: {"size": 39}}
    async with open_saver() as saver:
        graph = load_canvas(FORMS, model="demo", checkpointer=saver)
        state = await graph.ainvoke(Command(resume=answers), thread)
    assert state["messages"][-1]["content"] == "A red shirt of size 42, and shoes of size 39."
