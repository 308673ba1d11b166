from ragflow_lg.agents.question_rewriting import QUESTION_HEAD
from tests.fakes.agents import play_agent
from tests.fakes.services import Reply


async def test_a_short_conversation_is_left_as_it_is() -> None:
    played = await play_agent([Reply("hi")])
    assert not any(request.system.startswith(QUESTION_HEAD) for _, request in played.model.requests)


async def test_an_empty_rewrite_changes_nothing() -> None:
    prompts = [{"role": role, "content": f"m{n}"} for n, role in enumerate(["user", "assistant"] * 2 + ["user"])]
    played = await play_agent([Reply(""), Reply("hi")], {"prompts": prompts})
    assert played.model.requests[0][1].system.startswith(QUESTION_HEAD)
    assert played.model.requests[1][1].messages[-1]["content"] == "m4"
