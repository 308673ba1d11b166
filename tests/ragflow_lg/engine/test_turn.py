from typing import Any

from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.chat_messages import MAX_PRIOR_ENTRIES, merge_by_role
from ragflow_lg.engine.turn import open_turn, resume_turn
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import fake_services

PLAN = plan_of(canvas({"a": text()}, variables={"n": {"name": "n", "value": 1}}))


async def test_the_first_turn_of_a_session_uses_prior_messages() -> None:
    earlier = [["user", "hi"], ["assistant", "hello"], ["user", "how?"], ["assistant", "so"]]
    turn = TurnContext(fake_services())
    update, _ = await open_turn(PLAN, {}, turn, {"query": "and?", "earlier": earlier})
    said: list[Any] = [["assistant", {"content": text}] for text in ("hello", "so")]
    assert update["history"] == [["user", "hi"], said[0], ["user", "how?"], said[1], ["user", "and?"]]
    values, messages = update["globals"], update["messages"]
    assert (values["sys.conversation_turns"], update["turn"]["number"]) == (3, 3)
    assert values["sys.history"] == ["user: hi", "assistant: hello", "user: how?", "assistant: so", "user: and?"]
    assert [message["content"] for message in messages] == ["hi", "hello", "how?", "so", "and?"]
    assert len({message["id"] for message in messages}) == 5
    state = {"history": [["user", "old"]]}
    assert (await open_turn(PLAN, state, turn, {"query": "q", "earlier": earlier}))[0]["history"] == [["user", "q"]]


def test_prior_messages_alternate_and_other_roles_and_empty_texts_are_dropped() -> None:
    messages = [("system", "s"), ("assistant", "Hi!"), ("user", "a"), ("tool", "t"), ("user", "b"), ("assistant", " ")]
    assert merge_by_role(messages) == [["assistant", "Hi!"], ["user", "a\nb"]]
    many = [(role, str(number)) for number in range(MAX_PRIOR_ENTRIES) for role in ("user", "assistant")]
    merged = merge_by_role(many)
    assert (len(merged), merged[-1]) == (MAX_PRIOR_ENTRIES, ["assistant", str(MAX_PRIOR_ENTRIES - 1)])


async def test_a_resumed_turn_counts_and_an_empty_query_keeps_the_previous_one() -> None:
    state = {"globals": {"sys.query": "old", "sys.conversation_turns": 1, "sys.history": ["user: old"]}}
    turn = TurnContext(fake_services())
    update = await resume_turn(PLAN, state, turn, {"query": ""})
    assert update["history"] == [["user", ""]]
    date = update["globals"].pop("sys.date")
    assert date.startswith("2026-01-02 ")
    assert update["globals"] == {"sys.conversation_turns": 2, "sys.history": ["user: old", "user: "]}
    update = await resume_turn(PLAN, state, turn, {"query": "new", "files": [{"name": "f"}]})
    assert update["globals"]["sys.query"] == "new"
    assert update["globals"]["sys.files"]
