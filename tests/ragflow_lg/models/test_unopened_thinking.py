"""Models that send only the closing tag of their thinking: what the rest of a canvas and later turns have of it."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.fakes.canvas import node
from tests.fakes.memories import FakeMemories
from tests.fakes.regions import assign, loop, out, play_run, runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

PARAMS = {"sys_prompt": "Answer.", "prompts": "{sys.query}", "message_history_window_size": 12}
CATEGORIES = {
    "no": {"description": "a refusal", "to": ["k"]},
    "yes": {"description": "consent", "to": ["k"]},
    "none": {"description": "anything else", "to": ["k"]},
}
THOUGHTS = ("think", "hard", "No, no")
ANSWERS = ["Let me think.\n</think>\n\nYes.", "No, this is hard.\n</think>\n\nNo, no.\n</think>\n\nYes."]


def texts(model: ScriptedModel) -> str:
    return " ".join(
        part for _, request in model.requests for part in (request.system, *(m["content"] for m in request.messages))
    )


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_loop_with_a_memory_and_a_categorize_keeps_only_the_answer(answer: str, is_streamed: bool) -> None:
    message = {"content": ["{a@content}"], "memory_ids": ["m"], "stream": is_streamed}
    body = {
        "a": node("LLM", PARAMS, ["m"]),
        "m": node("Message", message, ["c"]),
        "c": node("Categorize", {"query": "a@content", "category_description": CATEGORIES}, ["k"]),
        "k": assign("lp@v", "a@content"),
    }
    components: dict[str, Any] = {**loop(body, count=2, variables={"v": ""}), **out("[{lp@v}|{c@category_name}]")}
    memories = FakeMemories({"m": []})
    model = ScriptedModel([Reply(answer, match="Answer."), Reply("It says no.\n</think>\nyes")] * 2)
    services = fake_services(models=OneModel(model), memories=memories)
    runner = runner_of(components, services=services, saver=InMemorySaver())
    text, _ = await play_run(runner.start("s", {"query": "q"}))
    assert text.replace("\n", "") == "Yes.Yes.[Yes.|yes]"
    assert [exchange.answer.strip() for _, exchange in memories.exchanges] == ["Yes."] * 2
    assert [streamed for streamed, _ in model.requests] == [is_streamed, False] * 2
    assert [word for word in THOUGHTS if word in texts(model)] == []


async def test_the_history_of_later_turns_has_only_the_answer() -> None:
    components = {"a": node("LLM", PARAMS, ["out"]), **out("{a@content}")}
    model = ScriptedModel([Reply(ANSWERS[0]), Reply(ANSWERS[1]), Reply("Fine.")])
    runner = runner_of(components, services=fake_services(models=OneModel(model)), saver=InMemorySaver())
    for query in ("one", "two", "three"):
        await play_run(runner.start("s", {"query": query}))
    sent = [message["content"].strip() for message in model.requests[-1][1].messages]
    assert sent == ["one", "Yes.", "two", "Yes.", "three"]
