import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest

from ragflow_lg.services.chat import Usage
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.services import Reply
from tests.server.cli.command import ROOT
from tests.server.http.app_server import CITING, ECHO, FORM, MODEL, RETRYING, AppServer, start_app
from tests.server.http.openai.test_openai_routes import TALKING, client_of, user
from tests.server.waiting import wait_while

ORDER = ROOT / "examples" / "order_form.json"
MISSING = "resp_" + "0" * 32
TEXT_EVENTS = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


async def stream_of(client: openai.AsyncOpenAI, **fields: Any) -> list[Any]:
    events: list[Any] = [event async for event in await client.responses.create(stream=True, **fields)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events


def session_of(response: Any) -> str:
    return response.model_extra["session_id"]


async def test_a_response_whole_and_as_a_stream(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Hell", "o"], usage=Usage(30, 2, 1), repeat=True)]
    agent_id = await server.agent(MODEL)
    async with client_of(server, "/v1") as client:
        whole = await client.responses.create(model=agent_id, input="hi", user="ada", metadata={"a": "b"})
        assert (whole.output_text, whole.status, whole.model, whole.metadata) == (
            "Hello",
            "completed",
            agent_id,
            {"a": "b"},
        )
        assert whole.usage is not None
        assert (whole.usage.input_tokens, whole.usage.output_tokens, whole.usage.total_tokens) == (30, 2, 32)
        events = await stream_of(client, model=agent_id, input=user([{"type": "input_text", "text": "hi"}]))
        assert [event.type for event in events] == TEXT_EVENTS
        assert [event.delta for event in events if event.type == "response.output_text.delta"] == ["Hell", "o"]
        assert events[6].text == events[7].part.text == events[8].item.content[0].text == "Hello"
        last = events[-1].response
        assert (last.output_text, last.usage, {events[0].response.id, last.id}) == ("Hello", whole.usage, {last.id})
        assert events[2].item.id == events[4].item_id == last.output[0].id
        retrieved = (await client.responses.retrieve(whole.id)).to_dict()
        assert retrieved == {**whole.to_dict(), "metadata": {}, "user": None}
    row = (await server.get(f"/agents/{agent_id}/sessions/{session_of(whole)}"))["data"]
    assert (row["user_id"], row["source"], row["round"]) == ("ada", "workflow", 1)
    async with client_of(server, f"/api/v1/agents_openai/{agent_id}") as client:
        assert (await client.responses.create(model="any", input="hi")).output_text == "Hello"


async def test_thinking_is_an_item_of_its_own(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["<think>", "Hm", "m.", "</think>", "Yes."], repeat=True)]
    agent_id = await server.agent(MODEL)
    async with client_of(server, "/v1") as client:
        whole = await client.responses.create(model=agent_id, input="hi")
        assert [item.type for item in whole.output] == ["reasoning", "message"]
        assert (vars(whole.output[0])["summary"][0].text, whole.output_text) == ("Hmm.", "Yes.")
        events = await stream_of(client, model=agent_id, input="hi")
    assert "".join(e.delta for e in events if e.type == "response.reasoning_summary_text.delta") == "Hmm."
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "Yes."
    assert [e.output_index for e in events if e.type == "response.output_item.done"] == [0, 1]


async def test_an_answer_that_starts_again_replaces_its_item(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["par"], error="503"), Reply("whole")] * 2
    agent_id = await server.agent(RETRYING)
    async with client_of(server, "/v1") as client:
        assert (await client.responses.create(model=agent_id, input="hi")).output_text == "<whole>"
        events = await stream_of(client, model=agent_id, input="hi")
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [(item.status, item.content[0].text) for item in done] == [("incomplete", "<par"), ("completed", "<whole>")]
    assert events[-1].response.output_text == "<whole>"
    assert [item.id for item in events[-1].response.output] == [done[1].id]


async def test_a_conversation_goes_on_after_any_response(server: AppServer) -> None:
    server.model.replies += [Reply("One."), Reply("Two."), Reply("Other.")]
    agent_id, other = await server.agent(MODEL), await server.agent(ECHO, "Other")
    async with client_of(server, "/v1") as client:
        first = await client.responses.create(model=agent_id, input="a")
        second = await client.responses.create(model=agent_id, input="b", previous_response_id=first.id)
        branch = await client.responses.create(model=agent_id, input="c", previous_response_id=first.id)
        sessions = [session_of(each) for each in (first, second, branch)]
        assert (sessions[0] == sessions[1], sessions[2] in sessions[:2]) == (True, False)
        assert second.previous_response_id == first.id
        asked = [[message["content"] for message in request.messages] for _, request in server.model.requests]
        assert asked == [["a"], ["a", "One.", "b"], ["a", "One.", "c"]]
        with pytest.raises(openai.BadRequestError, match="of another agent"):
            await client.responses.create(model=other, input="b", previous_response_id=first.id)


async def test_items_are_the_history_of_a_new_session_or_continue_theirs(server: AppServer) -> None:
    server.model.replies += [Reply(f"Answer {number}.") for number in range(4)]
    agent_id = await server.agent(MODEL)
    async with client_of(server, "/v1") as client:

        async def ask(*items: Any) -> Any:
            return await client.responses.create(model=agent_id, input=[*items])

        one, two = {"role": "user", "content": "one"}, {"role": "user", "content": "two"}
        said: Any = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Well."}]}
        await ask({"role": "developer", "content": "Be kind."}, one, said, {"type": "reasoning", "summary": []}, two)
        first = await ask(one)
        again = await ask(one, {"type": "item_reference", "id": first.output[0].id}, two)
        changed = await ask(two, {"type": "item_reference", "id": first.output[0].id}, one)
        assert (again.session_id == first.session_id, changed.session_id == first.session_id) == (True, False)
        asked = [[message["content"] for message in request.messages] for _, request in server.model.requests]
        assert asked == [["one", "Well.", "two"], ["one"], ["one", "Answer 1.", "two"], ["two", "Answer 1.", "one"]]
        for items, problem in [
            ([{"type": "item_reference", "id": "msg_unknown_0"}, one], "Item with id 'msg_unknown_0' not found"),
            ([{"type": "item_reference", "id": f"msg_{n}"} for n in range(101)], "refers to more than 100 items"),
            ([{"role": "system", "content": "x"}], "must contain a message of the user"),
        ]:
            with pytest.raises(openai.APIStatusError, match=problem):
                await ask(*items)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_form_is_returned_and_answered(server: AppServer, stream: bool) -> None:
    agent_id, talking = await server.agent(FORM), await server.agent(TALKING, "Talking")
    async with client_of(server, "/v1") as client:

        async def ask(model: str, **fields: Any) -> Any:
            create: Any = client.responses.create
            return (
                (await stream_of(client, model=model, **fields))[-1].response
                if stream
                else await create(model=model, **fields)
            )

        answers: list[Any] = [{"input": "42"}, {"extra_body": {"inputs": {"size": {"value": 42}}}}]
        for answer in answers:
            waiting = await ask(agent_id, input="hi")
            assert (waiting.output_text, waiting.status) == ("Which size?", "completed")
            assert list(waiting.waiting_for_user["inputs"]) == ["size"]
            stored = (await client.responses.retrieve(waiting.id)).model_extra or {}
            assert stored["waiting_for_user"] == waiting.waiting_for_user
            done = await ask(agent_id, previous_response_id=waiting.id, **answer)
            assert (done.output_text, hasattr(done, "waiting_for_user")) == ("Size 42", False)
            refused: list[Any] = [
                {"input": "x", "extra_body": {"inputs": {"size": {"value": "red"}}}},
                {"input": user([{"type": "input_image", "image_url": "data:image/png;base64,aaaa"}])},
            ]
            for fields in refused:
                with pytest.raises(openai.BadRequestError):
                    await ask(agent_id, previous_response_id=waiting.id, **fields)
        assert len((await server.get(f"/agents/{agent_id}/sessions"))["data"]) == 2
        assert (await ask(talking, input="hi")).output_text == "Welcome."


async def test_a_text_does_not_answer_two_forms(server: AppServer) -> None:
    agent_id = await server.agent(json.loads(ORDER.read_text("utf-8")))
    async with client_of(server, "/v1") as client:
        waiting = await client.responses.create(model=agent_id, input="hi")
        assert waiting.output_text == "Which shirt?\n\nWhich shoes?"
        assert (waiting.model_extra or {})["waiting_for_user"]["tips"] == waiting.output_text
        with pytest.raises(openai.BadRequestError, match=r"UserFillUp:Shirt \(colour, size\) and UserFillUp:Shoes"):
            await client.responses.create(model=agent_id, input="blue", previous_response_id=waiting.id)
        inputs = {"colour": {"value": "blue"}, "size": {"value": 42}}
        done = await client.responses.create(
            model=agent_id, input=[], previous_response_id=waiting.id, extra_body={"inputs": inputs}
        )
        assert done.output_text.startswith("A blue shirt of size 42")
        chat = await client.chat.completions.create(model=agent_id, messages=[{"role": "user", "content": "hi"}])
        assert chat.choices[0].message.content == waiting.output_text


async def test_ends_that_are_not_complete(server: AppServer) -> None:
    cut, blocked = Reply("First, switch", end="length"), Reply("", end="content_filter")
    server.model.replies += [cut, cut, blocked, blocked, Reply(error="no model", repeat=True)]
    agent_id = await server.agent(MODEL)
    async with client_of(server, "/v1") as client:
        for reason in ("max_output_tokens", "content_filter"):
            whole = await client.responses.create(model=agent_id, input="hi")
            assert (whole.status, whole.incomplete_details and whole.incomplete_details.reason) == (
                "incomplete",
                reason,
            )
            last = (await stream_of(client, model=agent_id, input="hi"))[-1]
            assert (last.type, last.response.incomplete_details.reason) == ("response.incomplete", reason)
        with pytest.raises(openai.InternalServerError, match="no model"):
            await client.responses.create(model=agent_id, input="hi")
        last = (await stream_of(client, model=agent_id, input="hi"))[-1]
        assert (last.type, last.response.status, "no model" in last.response.error.message) == (
            "response.failed",
            "failed",
            True,
        )
        stored = await client.responses.retrieve(last.response.id)
        assert (stored.status, stored.error) == ("failed", last.response.error)


async def test_a_response_in_the_background(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["a"] * 200, pause_s=0.05), Reply("Done.")]
    agent_id = await server.agent(MODEL)
    async with client_of(server, "/v1") as client:
        begun = await client.responses.create(model=agent_id, input="hi", background=True)
        assert (begun.status, begun.background, begun.output) == ("in_progress", True, [])
        assert (await client.responses.retrieve(begun.id)).status == "in_progress"
        await client.responses.cancel(begun.id)
        await wait_while(lambda: server.running)
        assert (await client.responses.retrieve(begun.id)).status == "cancelled"
        begun = await client.responses.create(model=agent_id, input="hi", background=True)
        events: list[Any] = [event async for event in await client.responses.retrieve(begun.id, stream=True)]
        rest = [e async for e in await client.responses.retrieve(begun.id, stream=True, starting_after=3)]
        assert (events[0].type, events[-1].response.output_text) == ("response.created", "Done.")
        assert rest == events[4:]


async def test_deleting_ends_a_conversation(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    async with client_of(server, "/v1") as client:
        first = await client.responses.create(model=agent_id, input="a")
        last = await client.responses.create(model=agent_id, input="b", previous_response_id=first.id)
        with pytest.raises(openai.ConflictError, match=f"deleted with its last response, {last.id}"):
            await client.responses.delete(first.id)
        await client.responses.delete(last.id)
        for each in (first, last):
            with pytest.raises(openai.NotFoundError, match="not found"):
                await client.responses.retrieve(each.id)
    assert (await server.get(f"/agents/{agent_id}/sessions"))["data"] == []


async def test_refusals_have_openais_form(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    async with client_of(server, "/v1") as client:
        mine = await client.responses.create(model=agent_id, input="a")
    key = await server.new_key("other")
    async with openai.AsyncOpenAI(api_key=key, base_url=f"{server.url}/v1") as stranger:
        for unknown in (MISSING, mine.id, "resp_\x00", "x"):
            for question in (stranger.responses.retrieve, stranger.responses.delete, stranger.responses.cancel):
                with pytest.raises(openai.NotFoundError, match="not found") as refused:
                    await question(unknown)
                assert refused.value.code == "response_not_found"
    own = await server.agent(ECHO, "Own")
    async with client_of(server, "/v1") as client:
        cases: list[tuple[Any, str]] = [
            ({"input": "x", "previous_response_id": MISSING}, f"Response with id '{MISSING}' not found"),
            ({"input": "x", "store": False}, "`store` is not supported"),
            ({"input": "x", "tool_choice": "required"}, "`tool_choice` is not supported"),
            ({"input": "x", "text": {"format": {"type": "json_object"}}}, "`text.format` is not supported"),
            ({"input": "x", "conversation": "conv_1"}, "`conversation` is not supported"),
            ({"input": 7}, "`input` must be a text or a list of items"),
            ({"input": [{"role": "user", "content": 7}]}, "The `content` of an item must be"),
            ({}, "must contain a message of the user"),
        ]
        for fields, problem in cases:
            with pytest.raises(openai.APIStatusError, match=problem):
                await client.responses.create(model=own, **fields)
        items: Any = [{"type": "function_call_output", "call_id": "a", "output": "b"}, *user("x")]
        raw = await client.responses.with_raw_response.create(model=own, input=items, instructions="Be kind.")
        assert raw.headers["x-ignored-fields"] == "input%5B0%5D, input%5B1%5D, instructions"


async def test_a_repeated_request_gets_the_same_response(server: AppServer) -> None:
    agent_id = await server.agent(ECHO)
    async with client_of(server, "/v1") as client:
        first = await client.responses.create(model=agent_id, input="a")
        fields: Any = {"model": agent_id, "input": "b", "previous_response_id": first.id}
        headers = {"Idempotency-Key": "once"}
        create: Any = client.responses.create
        answers = [await create(**fields, extra_headers=headers) for _ in range(2)]
        assert answers[0] == answers[1]
        fields = {"model": agent_id, "input": "c", "previous_response_id": answers[0].id}
        lost = await create(**fields, background=True)
        await wait_while(lambda: server.running)
        assert (await create(**fields)).id == lost.id
        known = [lost.id]
        for previous in (0, 1, 0):  # a client that names a response has had it
            fields["previous_response_id"] = known[previous]
            known.append((await create(**fields, background=True)).id)
            await wait_while(lambda: server.running)
    assert len(set(known)) == 4
    assert len((await server.get(f"/agents/{agent_id}/sessions"))["data"]) == 2


async def test_parallel_turns_after_a_response_are_apart(tmp_path: Path) -> None:
    replies = [Reply("One."), *[Reply(chunks=["Two", "."], pause_s=0.1)] * 2]
    async with start_app(tmp_path, replies, busy_s=10) as server:
        agent_id = await server.agent(MODEL)
        async with client_of(server, "/v1") as client:
            first = await client.responses.create(model=agent_id, input="a")

            async def ask(text: str) -> str:
                events = await stream_of(client, model=agent_id, input=text, previous_response_id=first.id)
                return session_of(events[-1].response)

            assert len(set(await asyncio.gather(ask("b"), ask("c")))) == 2
        asked = sorted([message["content"] for message in request.messages] for _, request in server.model.requests)
        assert asked == [["a"], ["a", "One.", "b"], ["a", "One.", "c"]]


async def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    checkpoints = f"sqlite:///{tmp_path}/sessions.db"
    async with start_app(tmp_path, [Reply("One.")], checkpoints=checkpoints) as server:
        agent_id = await server.agent(MODEL)
        async with client_of(server, "/v1") as client:
            first = await client.responses.create(model=agent_id, input="a")
        key = server.key
    async with (
        start_app(tmp_path, [Reply("Two.")], checkpoints=checkpoints) as server,
        openai.AsyncOpenAI(api_key=key, base_url=f"{server.url}/v1") as client,
    ):
        stored = await client.responses.retrieve(first.id)
        assert (stored.output_text, stored.status, stored.usage) == ("One.", "completed", first.usage)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id, stream=True)
        second = await client.responses.create(model=agent_id, input="b", previous_response_id=first.id)
        assert second.output_text == "Two."
        question = [message["content"] for message in server.model.requests[-1][1].messages]
        assert question == ["a", "One.", "b"]


async def test_sources_are_the_same_after_a_restart(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/sessions.db"
    replies = [Reply("Rice needs water [ID:0].")]
    async with start_app(tmp_path, replies, knowledge=FakeKnowledge(), checkpoints=database) as server:
        agent_id, key = await server.agent(CITING), server.key
        async with client_of(server, "/v1") as client:
            first = await client.responses.create(model=agent_id, input="a")
    async with (
        start_app(tmp_path, checkpoints=database) as server,
        openai.AsyncOpenAI(api_key=key, base_url=f"{server.url}/v1") as client,
    ):
        assert (await client.responses.retrieve(first.id)).output == first.output
    (message,) = first.output
    assert list((message.model_extra or {})["reference"]["chunks"]) == ["61", "164"]
