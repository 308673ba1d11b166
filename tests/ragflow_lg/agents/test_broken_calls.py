"""Agents with tools and broken arguments, in every strategy: the turn ends with an answer, and requests are valid."""

import json
import random
from typing import Any

from ragflow_lg.adapters.chat.openai_messages import write_messages
from ragflow_lg.services.chat import AnswerEnd, ChatRequest
from tests.fakes.agents import play_agent
from tests.fakes.services import Reply
from tests.harness.rows import each_row

PIECES = (
    '{"query": "Laos"}',
    "{'query': 'Laos'}",
    "null",
    "[]",
    "5",
    "true",
    "",
    "}",
    ",",
    "```json\n",
    "\n```",
    '"',
    "\\",
)
PIECES_OF_CUTS = ('{"query": "La', '{"query":', "{", "[", "\\ud83d", "\x00", "NaN", "<tool_call>", "x" * 300, "{" * 300)
NAMES = ("wikipedia_search_0", "wikipedia_search", "unknown", "", "a b", "n" * 100)
STRATEGIES = ("function_calling", "react", "plan_and_reflect", "deep_research")


def broken_reply(random_: random.Random, strategy: str) -> Reply:
    """Return a model's answer with calls as it should not write them."""
    arguments = "".join(random_.choices(PIECES + PIECES_OF_CUTS, k=random_.randint(0, 4)))
    name = random_.choice(NAMES)
    end: AnswerEnd = random_.choice(("", "stop", "length"))
    if strategy in ("function_calling", "deep_research"):
        calls = [{"name": name, "arguments": arguments, "id": random_.choice(("same", "", "own"))}] * random_.randint(
            1, 3
        )
        return Reply("done" if strategy == "deep_research" else "", calls=calls, end=end)
    if strategy == "react":
        return Reply(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>', end=end)
    return Reply(f'[{{"name": "{name}", "arguments": {arguments}}}', end=end)


def check_request(request: ChatRequest) -> None:
    """Convert a request as the client does, and check it against the rules of OpenAI's API."""
    from langchain_core.messages import convert_to_messages
    from langchain_openai.chat_models.base import (
        _convert_message_to_dict,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType] - what ChatOpenAI sends
    )

    converted: list[dict[str, Any]] = [
        _convert_message_to_dict(m) for m in convert_to_messages(write_messages(request))
    ]
    json.dumps(converted, allow_nan=False, ensure_ascii=False).encode()
    open_ids: list[str] = []
    for message in converted:
        if message["role"] == "tool":
            open_ids.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
            continue
        assert open_ids == []
        calls = message.get("tool_calls", ())
        open_ids = [call["id"] for call in calls]
        assert len(set(open_ids)) == len(open_ids)
        for call in calls:
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            assert 0 < len(call["function"]["name"]) <= 64
    assert open_ids == []


@each_row("seed", range(4))
@each_row("strategy", STRATEGIES)
async def test_a_turn_with_broken_calls_ends_with_an_answer(strategy: str, seed: int) -> None:
    random_ = random.Random(f"{strategy} {seed}")
    rounds = 3
    first = [Reply("Fine.")] if strategy == "plan_and_reflect" else []
    replies = [*first, *(broken_reply(random_, strategy) for _ in range(rounds))]
    rest = Reply("done", repeat=True)
    params = {"strategy": strategy, "max_rounds": rounds, "max_retries": 0}
    turn = await play_agent([*replies, rest], params, is_shown=seed % 2 == 0)
    assert turn.run.status == "succeeded", turn.outputs
    assert (turn.outputs["content"] or "").endswith("done")
    for _, request in turn.model.requests:
        check_request(request)
