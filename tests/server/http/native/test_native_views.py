from __future__ import annotations

from ragflow_lg.base.ids import NodeId
from ragflow_lg.runs.branching import CheckpointInfo
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.server.database.tables import AgentRow, MessageRow, SessionRow, VersionRow
from ragflow_lg.server.http.native.native_views import (
    build_message,
    build_moment,
    build_pause,
    build_session,
    build_session_whole,
    build_version,
)
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.regions import loop, out

ROW = SessionRow(id="s", agent_id="a", version_id="v", name="N", user_id="u", create_ms=1, update_ms=2)


def test_a_pause_shows_its_form_and_its_schema() -> None:
    shown = build_pause(Pause("p", "F:0", "Why?", {"size": {"type": "integer"}}))
    assert (shown.id, shown.node, shown.tips, shown.fields) == ("p", "F:0", "Why?", {"size": {"type": "integer"}})
    assert shown.answer_schema["required"] == ["size"]


def test_sessions_and_messages_are_shown() -> None:
    said = MessageRow(role="assistant", content="Hi", reference='[{"id": "c"}]', create_ms=3)
    assert build_message(said).model_dump() == {
        "role": "assistant",
        "content": "Hi",
        "run_id": "",
        "reference": [{"id": "c"}],
        "create_ms": 3,
    }
    assert (build_session(ROW).turns, build_session(ROW).name) == (0, "N")
    whole = build_session_whole(ROW, [said], [Pause("p", "F:0", "", {})], is_busy=True)
    assert (len(whole.messages), len(whole.pauses), whole.is_busy) == (1, 1, True)


def test_a_version_knows_whether_it_is_the_draft() -> None:
    agent = AgentRow(id="a", version_id="v")
    row = VersionRow(id="v", agent_id="a", title="T", description="", is_released=True, create_ms=1, update_ms=1)
    assert (build_version(row, agent).is_draft, build_version(row, agent).is_published) == (True, True)
    agent.version_id = "w"
    assert not build_version(row, agent).is_draft


def test_a_step_names_nodes_as_the_canvas_does_and_those_it_has_lost_by_their_id() -> None:
    document = canvas({"begin": node("Begin", {}, ["lp"]), **loop({"ask": node("LLM", {"llm_id": "m"})}), **out("x")})
    document["graph"] = {"nodes": [{"id": "ask", "data": {"name": "Ask it", "label": "LLM"}}]}
    moment = CheckpointInfo("c", "ns", NodeId("lp"), 4, "2026-01-01", (NodeId("ask"), NodeId("lost")), 2, 10)
    shown = build_moment(moment, plan_of(document))
    assert [(one.id, one.title) for one in shown.next] == [("ask", "Ask it"), ("lost", "lost")]
    assert shown.region is not None
    assert (shown.region.id, shown.round, shown.size_bytes) == ("lp", 2, 10)
