"""Each family against a stub of its API: what is sent, what is read, and what fails how."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from functools import reduce
from operator import getitem
from typing import Any, cast

import pytest

from ragflow_lg.adapters.chat import openai_chat
from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.http import answer_limits
from ragflow_lg.adapters.model_families.model_family import FamilyEndpoint
from ragflow_lg.base import extras
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.chat import ChatDelta, ChatRequest, Usage
from tests.fakes.images import PNG
from tests.fakes.model_wires.wire import Fault, Reply
from tests.ragflow_lg.adapters.model_families.family_cases import (
    CASES,
    HELLO,
    KEY,
    SCHEMA,
    TOOL,
    Case,
    key_of,
    model_of,
    read,
)

pytestmark = pytest.mark.filterwarnings("ignore:Tool messages were passed:RuntimeWarning")
CALL = ("call_1", "look_up", {"city": "Bonn"})
ROUND = (
    {"role": "user", "content": "Hi"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_1", "name": "look_up", "arguments": '{"city": "Bonn"}'}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


async def test_an_answer_has_text_and_usage_and_arrives_in_pieces(case: Case) -> None:
    image = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    async with model_of(case) as (stub, model):
        answer = await model.complete(HELLO)
        deltas = [delta async for delta in model.stream(HELLO)]
        assert (await model.complete(ChatRequest("", HELLO.messages, images=(image,)))).text == "Hello"
    assert (answer.text, answer.usage) == ("Hello", Usage(7, 5, 1))
    assert [delta.text for delta in deltas if delta.text] == ["Hel", "lo"]
    assert deltas[-1].usage == Usage(7, 5, 1)
    first, _, last = (call.body.decode() for call in stub.received)
    assert "Be kind." in first
    assert image.partition(",")[2] in last.replace("-", "+").replace("_", "/")


async def test_tools_are_offered_called_and_answered(case: Case) -> None:
    request = ChatRequest("Be kind.", HELLO.messages, tools=(TOOL,))
    both = Reply(("I ", "look."), calls=(CALL, ("call_2", "look_up", {"city": "Köln"})))
    async with model_of(case, Reply((), calls=(CALL,)), both, Reply()) as (stub, model):
        (call,) = (await model.complete(request)).calls
        assert (call.name, json.loads(call.arguments), bool(call.id)) == ("look_up", {"city": "Bonn"}, True)
        text, _, last = await read(model, request)
        assert (text, [json.loads(each.arguments)["city"] for each in last.calls]) == ("I look.", ["Bonn", "Köln"])
        assert len({each.id for each in last.calls}) == 2
        assert (await model.complete(ChatRequest("", ROUND, tools=(TOOL,)))).text == "Hello"
    first, _, second = (call.body.decode() for call in stub.received)
    assert "Look something up." in first
    assert "rain" in second
    assert "Bonn" in second


ENDS = {
    "anthropic": ("max_tokens", "refusal"),
    "azure": ("length", ""),  # LangChain's client raises an error for a blocked answer
    "bedrock": ("max_tokens", "guardrail_intervened"),
    "google": ("MAX_TOKENS", "SAFETY"),
    "ollama": ("length", ""),
}


async def test_an_answer_says_why_it_ended(case: Case) -> None:
    for reason, end in zip(("", *ENDS[case.client]), ("stop", "length", "content_filter"), strict=True):
        expected = end if reason or end == "stop" else "stop"
        async with model_of(case, Reply(reason=reason)) as (_, model):
            assert (await model.complete(HELLO)).end == expected
            assert (await read(model))[2].end == expected


@pytest.mark.parametrize("client", ["anthropic", "bedrock", "google", "ollama"])
async def test_thinking_is_marked(client: str) -> None:
    request = ChatRequest("", HELLO.messages, {"max_tokens": 4000, "temperature": 0.3}, thinking="enabled")
    async with model_of(CASES[client], Reply(thinking="Hm.")) as (stub, model):
        text, thinking, _ = await read(model, request)
        assert (text, thinking) == ("Hello", "Hm.")
        assert (await model.complete(request)).text == "Hello"
        body = stub.received[0].json
        await read(model, ChatRequest("", ROUND, thinking="enabled", tools=(TOOL,)))
        later = stub.received[-1].json
        await model.complete(ChatRequest("", HELLO.messages, thinking="disabled"))
        last = stub.received[-1].json
    match client:
        case "anthropic":
            assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
            assert ("thinking" in later, last["thinking"]) == (False, {"type": "disabled"})
        case "bedrock":
            assert body["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 2000}}
            assert "additionalModelRequestFields" not in later
            assert last["additionalModelRequestFields"] == {"thinking": {"type": "disabled"}}
        case "google":
            assert body["generationConfig"]["thinkingConfig"] == {"include_thoughts": True}
            assert last["generationConfig"]["thinkingConfig"] == {"thinking_budget": 0}
        case _:
            assert (body["think"], last["think"]) == (True, False)


async def test_sampling_and_stop_texts_have_the_names_of_the_family(case: Case) -> None:
    sampling = {"temperature": 0.3, "max_tokens": 99, "presence_penalty": 0.5}
    async with model_of(case) as (stub, model):
        await model.complete(ChatRequest("", HELLO.messages, sampling, stop=("END",)))
        body = stub.received[0].json
    google = {"temperature": 0.3, "maxOutputTokens": 99, "presencePenalty": 0.5, "stopSequences": ["END"]}
    values: dict[str, dict[str, Any]] = {
        "anthropic": {"temperature": 0.3, "max_tokens": 99, "stop_sequences": ["END"]},
        "azure": {"temperature": 0.3, "max_completion_tokens": 99, "presence_penalty": 0.5, "stop": ["END"]},
        "bedrock": {"inferenceConfig": {"temperature": 0.3, "maxTokens": 99, "stopSequences": ["END"]}},
        "ollama": {"options": {"temperature": 0.3, "num_predict": 99, "presence_penalty": 0.5, "stop": ["END"]}},
        "google": {"generationConfig": google},
    }
    expected = values[case.client]
    if case.client == "google":
        body["generationConfig"].pop("candidateCount", None)
    assert {name: body.get(name) for name in expected} == expected


async def test_a_schema_is_passed_on(case: Case) -> None:
    async with model_of(case, Reply(('{"city": "Bonn"}',))) as (stub, model):
        request = ChatRequest("", HELLO.messages, schema=SCHEMA)
        assert json.loads((await model.complete(request)).text) == {"city": "Bonn"}
        assert json.loads((await read(model, request))[0]) == {"city": "Bonn"}
        body = stub.received[0].json
    places = {
        "anthropic": ("output_config", "format", "schema"),
        "azure": ("response_format", "json_schema", "schema"),
        "bedrock": ("outputConfig", "textFormat", "structure", "jsonSchema", "schema"),
        "google": ("generationConfig", "responseJsonSchema"),
        "ollama": ("format",),
    }
    sent: Any = reduce(getitem, places[case.client], body)
    sent = json.loads(sent) if isinstance(sent, str) else sent
    assert sent["properties"] == SCHEMA["properties"]


async def test_a_busy_server_is_asked_again_when_it_says(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat, "_FIRST_PAUSE_S", 0.01)
    faults = [Fault(429, {"retry-after": "0.3"}), Fault(500)]
    async with model_of(case, faults=faults, max_retries=2) as (stub, model):
        began = asyncio.get_running_loop().time()
        assert (await read(model))[0] == "Hello"
        assert asyncio.get_running_loop().time() - began > 0.3
        stub.faults = [Fault(429, {"retry-after": "0.1"})]
        assert (await model.complete(HELLO)).text == "Hello"
        assert len(stub.received) == 5


async def test_refusals_name_status_and_reason_but_not_the_key(case: Case) -> None:
    rows = [(401, False), (429, True), (500, True)]
    faults = [Fault(status, {"retry-after": "3"}) for status, _ in rows for _ in range(2)]
    async with model_of(case, faults=[*faults, Fault(307, {"location": "/elsewhere"})]) as (stub, model):
        stub.reason = f"not now, {KEY}"
        for status, is_retryable in rows:
            for call in (read(model), model.complete(HELLO)):
                with pytest.raises(ServiceError, match=rf"of Zoo answered {status}: .*not now") as caught:
                    await call
                assert (caught.value.is_retryable, caught.value.retry_after_s) == (is_retryable, 3.0)
                assert key_of(case) == "" or KEY not in str(caught.value)
        with pytest.raises(ServiceError):  # a redirect is not followed
            await model.complete(HELLO)
        assert len(stub.received) == 7


async def test_a_stream_that_is_cut_is_a_failure(case: Case) -> None:
    async with model_of(case, faults=[Fault(cut=True)]) as (_, model):
        stream = model.stream(HELLO)
        assert (await anext(stream)).text == "Hel"
        with pytest.raises(
            ServiceError, match=r"stopped early: its answer ends without|closed the connection"
        ) as caught:
            [delta async for delta in stream]
        assert caught.value.is_retryable


async def test_a_server_that_is_gone_can_be_asked_again(case: Case) -> None:
    provider = ProviderSettings("http://127.0.0.1:9", key_of(case), client=case.client, max_retries=0)
    models = ConfiguredModels(ChatModelSettings(providers={"Zoo": provider}))
    for call in (models.model("m@Zoo").complete(HELLO), read(models.model("m@Zoo"))):
        with pytest.raises(ServiceError, match=r"cannot be reached at http://127\.0\.0\.1:9") as caught:
            await call
        assert caught.value.is_retryable
    await models.aclose()


async def test_an_answer_that_is_too_large_fails(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "MAX_ANSWER_BYTES", 3_000)
    monkeypatch.setattr(answer_limits, "MAX_STREAM_BYTES", 10_000)
    async with model_of(case, Reply(("x" * 500,) * 30), max_retries=1) as (stub, model):
        if case.client != "ollama":  # its client always streams
            with pytest.raises(ServiceError, match="more than 3,000 bytes"):
                await model.complete(HELLO)
        count = len(stub.received)
        with pytest.raises(ServiceError, match="more than 10,000 bytes"):
            await read(model)
        assert len(stub.received) == count + 1
        assert stub.received[0].headers["accept-encoding"] == "identity"


async def test_a_cancelled_stream_leaves_at_once(case: Case) -> None:
    async with model_of(case, Reply(("a",) * 50), faults=[Fault(pause_s=0.2)]) as (stub, model):
        stream = model.stream(HELLO)
        assert (await anext(stream)).text == "a"
        began = asyncio.get_running_loop().time()
        await cast("AsyncGenerator[ChatDelta]", stream).aclose()
        await asyncio.wait_for(stub.lost.wait(), 60)
        assert asyncio.get_running_loop().time() - began < 2
    async with model_of(case, faults=[Fault(pause_s=60)]) as (stub, model):
        reading = asyncio.create_task(read(model))
        while not stub.received:
            await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait_for(stub.lost.wait(), 5)  # although the server is silent


async def test_calls_time_out(case: Case) -> None:
    async with model_of(case, faults=[Fault(pause_s=10)], timeout_s=0.3) as (_, model):
        with pytest.raises(ServiceError, match="did not answer in time") as caught:
            await model.complete(HELLO) if case.client != "ollama" else await read(model)
        assert caught.value.is_retryable


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "anthropic", ("langchain", "no_such_package"))
    provider = ProviderSettings(api_key=KEY)
    with pytest.raises(SettingsError, match=r"needs no_such_package\. .*pip install '.*\[anthropic\]'"):
        ConfiguredModels(ChatModelSettings(providers={"Anthropic": provider})).model("claude@Anthropic")
    assert KEY not in repr(FamilyEndpoint("http://a", KEY))
