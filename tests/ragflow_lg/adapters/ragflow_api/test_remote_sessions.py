from typing import Any

import pytest

from ragflow_lg.adapters.ragflow_api.remote_sessions import list_sessions, parse_session, read_session
from tests.fakes.recorded_ragflow import GENERATIONS, RecordedRagflow
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.ragflow_api.opened_api import open_api

PAINTER = "a1" * 16
TALKED, WAITING = "51" * 16, "52" * 16


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_every_generation_gives_the_same_sessions(generation: str) -> None:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        api = open_api(server)
        ids = [id_ async for id_, _ in list_sessions(api, PAINTER)]
        assert ids == [TALKED, WAITING]
        talked, waiting = [await read_session(api, PAINTER, id_) for id_ in ids]
        assert talked is not None
        assert waiting is not None
        assert [message.content for message in talked.messages][-2:] == ["a boat", "a boat! In blue."]
        (cited,) = talked.messages[-1].chunks.values()
        assert (cited["content"], cited["document_name"]) == ("Blue is calm.", "colours.md")
        assert talked.messages[2].chunks == {}
        assert talked.state.history[-1] == ["assistant", {"content": "a boat! In blue."}]
        assert waiting.state.globals["env.city"] == "Oslo"
        assert waiting.state.path == ["UserFillUp:Colour"]
        assert waiting.state.outputs["StringTransform:Wish"] == {"result": "a tree!"}
        assert "prompts" not in repr(waiting.state)


@each_row(
    "row",
    [
        {},
        {"message": "text", "reference": 7, "dsl": "[1"},
        {"message": [None, 7, {"role": "root", "content": "x"}, {"role": "user"}]},
        {"message": [{"role": "user", "content": {"a": 1}, "created_at": 1e300, "reference": [1]}]},
        {"message": [{"role": "assistant"}] * 2, "reference": {"0": {"chunks": [1]}, "x": 2}},
        {"dsl": {"history": [["user"], "x", ["root", 1]], "path": [1], "globals": [], "components": {"a": {"obj": 1}}}},
    ],
)
def test_strange_sessions_lose_only_what_is_strange(row: dict[str, Any]) -> None:
    session = parse_session({"id": TALKED, **row}, PAINTER)
    assert session.id == TALKED
    assert all(message.role in ("user", "assistant") for message in session.messages)
    assert session.state.path == []


async def test_a_deleted_session_is_not_found(ragflow: RecordedRagflow) -> None:
    assert await read_session(open_api(ragflow), PAINTER, "0" * 32) is None
