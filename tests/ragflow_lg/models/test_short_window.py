"""A conversation that grows beyond the window of its model."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.runs.wire.wire_events import WireNodeFinished
from tests.fakes.canvas import node
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

TURNS = 12


async def test_a_long_conversation_keeps_its_newest_turns_and_says_what_was_left_out() -> None:
    params = {"sys_prompt": "Be kind.", "prompts": "{sys.query}", "message_history_window_size": 22}
    components: dict[str, Any] = {
        "begin": node("Begin", {}, ["a"]),
        "a": node("LLM", params, ["m"]),
        "m": node("Message", {"content": ["{a@content}"]}),
    }
    model = ScriptedModel([Reply("x" * 800)] * TURNS, context_tokens=2048)
    runner = runner_of(components, services=fake_services(models=OneModel(model)), saver=InMemorySaver())
    notices: list[tuple[str, ...]] = []
    for number in range(TURNS):
        run = runner.start("s", {"query": f"question {number}"})
        notices += [
            event.notices async for event in run if isinstance(event, WireNodeFinished) and event.component_id == "a"
        ]
    sent = [[message["content"] for message in request.messages] for _, request in model.requests]
    assert [len(messages) for messages in sent] == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 19, 19]
    assert [messages[-1] for messages in sent] == [f"question {number}" for number in range(TURNS)]
    assert [messages[0] for messages in sent[-3:]] == ["question 0", "question 1", "question 2"]
    assert all(request.system == "Be kind." for _, request in model.requests)
    assert [len(each) for each in notices] == [0] * 10 + [1, 1]
    assert "the 2 oldest messages" in notices[10][0]
    assert "the 4 oldest messages" in notices[11][0]
