import json

from ragflow_lg.base.ids import NodeId
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.runs.stored_steps import CheckpointInfo
from ragflow_lg.server.database.tables import AgentRow, MessageRow, SessionRow, VersionRow
from ragflow_lg.server.http.native.native_responses import (
    CheckAnswer,
    MessageAnswer,
    build_message_answer,
    build_moment_answer,
    build_pause_answer,
    build_session_answer,
    build_session_whole,
    build_version_answer,
)
from ragflow_lg.server.http.shared.responses import respond_json
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.regions import loop, out

ROW = SessionRow(id="s", agent_id="a", version_id="v", name="N", user_id="u", create_ms=1, update_ms=2)


def test_an_open_form_has_its_fields_and_its_schema() -> None:
    answer = build_pause_answer(Pause("p", "F:0", "Why?", {"size": {"type": "integer"}}))
    assert (answer.id, answer.node, answer.tips, answer.fields) == ("p", "F:0", "Why?", {"size": {"type": "integer"}})
    assert answer.answer_schema["required"] == ["size"]


def test_sessions_and_messages_are_built_from_rows() -> None:
    message = MessageRow(role="assistant", content="Hi", reference='{"chunks": {"0": {"id": "c"}}}', create_ms=3)
    assert build_message_answer(message).model_dump() == {
        "role": "assistant",
        "content": "Hi",
        "run_id": "",
        "reference": [{"id": "c", "citation_id": "0"}],
        "create_ms": 3,
    }
    assert (build_session_answer(ROW).turns, build_session_answer(ROW).name) == (0, "N")
    whole = build_session_whole(ROW, [message], [Pause("p", "F:0", "", {})], is_busy=True)
    assert (len(whole.messages), len(whole.pauses), whole.is_busy) == (1, 1, True)


def test_a_version_states_whether_it_is_the_draft() -> None:
    agent = AgentRow(id="a", version_id="v")
    row = VersionRow(id="v", agent_id="a", title="T", description="", is_released=True, create_ms=1, update_ms=1)
    assert (build_version_answer(row, agent).is_draft, build_version_answer(row, agent).is_published) == (True, True)
    agent.version_id = "w"
    assert not build_version_answer(row, agent).is_draft


def test_a_step_has_titles_of_nodes_and_ids_of_removed_nodes() -> None:
    document = canvas({"begin": node("Begin", {}, ["lp"]), **loop({"ask": node("LLM", {"llm_id": "m"})}), **out("x")})
    document["graph"] = {"nodes": [{"id": "ask", "data": {"name": "Ask it", "label": "LLM"}}]}
    moment = CheckpointInfo("c", "ns", NodeId("lp"), 4, "2026-01-01", (NodeId("ask"), NodeId("lost")), 2, 10)
    answer = build_moment_answer(moment, plan_of(document))
    assert [(one.id, one.title) for one in answer.next] == [("ask", "Ask it"), ("lost", "lost")]
    assert answer.region is not None
    assert (answer.region.id, answer.round, answer.size_bytes) == ("lp", 2, 10)


def test_answers_with_unusual_values_are_valid_json() -> None:
    message = MessageAnswer(role="user", content="\ud800 ü", run_id="", reference=[{1: "one", "x": None}], create_ms=1)
    answer = respond_json(message, 201, {"Location": "/x"})
    assert (answer.status_code, answer.headers["location"], answer.media_type) == (201, "/x", "application/json")
    assert json.loads(bytes(answer.body)) == {
        "role": "user",
        "content": "\ud800 ü",
        "run_id": "",
        "reference": [{"1": "one", "x": None}],
        "create_ms": 1,
    }
    assert json.loads(bytes(respond_json(CheckAnswer(runs=True, diagnostics=[])).body)) == {
        "runs": True,
        "diagnostics": [],
    }
    odd = MessageAnswer(role="user", content="", run_id="", reference=[float("nan")], create_ms=1)
    assert json.loads(bytes(respond_json(odd).body))["reference"] == [None]
