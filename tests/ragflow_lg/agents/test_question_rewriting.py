from tests.fakes.agents import play_agent
from tests.fakes.prompts import head_of
from tests.fakes.services import Reply


async def test_a_short_conversation_is_not_rewritten() -> None:
    turn = await play_agent([Reply("hi")])
    assert not any(request.system.startswith(head_of("standalone_question")) for _, request in turn.model.requests)


async def test_an_empty_rewrite_changes_nothing() -> None:
    prompts = [{"role": role, "content": f"m{n}"} for n, role in enumerate(["user", "assistant"] * 2 + ["user"])]
    turn = await play_agent([Reply(""), Reply("hi")], {"prompts": prompts})
    assert turn.model.requests[0][1].system.startswith(head_of("standalone_question"))
    assert turn.model.requests[1][1].messages[-1]["content"] == "m4"
