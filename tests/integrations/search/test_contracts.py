"""What every tool does with the usual, the rare and the broken answers of its service."""

import json
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from msgspec.structs import replace as replace_struct

from ragflow_lg.adapters.chat.model_resolution import ChatModelSettings, ConfiguredModels, ProviderSettings
from ragflow_lg.component.tool import SearchOutputs
from ragflow_lg.server.devtools.mock_llm.rules import MockCall
from tests.fakes.agents import tool_calls
from tests.fakes.canvas import node
from tests.fakes.mock_llm import MockLLM, reply
from tests.fakes.regions import runner_of
from tests.fakes.run import Result, run_component
from tests.fakes.services import Reply, ScriptedModel
from tests.fakes.tool_stubs.stub import Fault, ServiceStub
from tests.harness.rows import each_row
from tests.integrations.search.contracts import CONTRACTS, Contract, service_of

every_contract = each_row("contract", CONTRACTS)
KEYED = [contract for contract in CONTRACTS if contract.key]


async def call(contract: Contract, query: str = "", *, stub: ServiceStub | None = None, **more: Any) -> Result:
    stub = stub or contract.stub()
    settings = {name: more.pop(name) for name in ("key", "timeout_s") if name in more}
    async with service_of(contract, stub, **settings) as (host, services):
        params = {"delay_after_error": 0, **contract.params, **contract.arguments(host, query), **more}
        return await run_component(contract.spec, params, services=services)


def text_of(contract: Contract, result: Result) -> str:
    value = result.outputs[contract.output]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@every_contract
async def test_a_node_returns_what_the_service_answers(contract: Contract) -> None:
    stub = contract.stub()
    result = await call(contract, stub=stub)
    assert result.error is None
    assert contract.says in text_of(contract, result)
    assert stub.received


def agent_with(contract: Contract) -> dict[str, Any]:
    """Return a canvas whose agent has the tool."""
    entry = {"component_name": contract.name, "name": "Tool", "params": contract.params}
    agent = {"llm_id": "m@Test", "prompts": "{sys.query}", "tools": [entry], "cite": False}
    return {"a": node("Agent", agent, ["out"]), "out": node("Message", {"content": ["{a@content}"]})}


def model_that_calls(contract: Contract, host: str) -> ScriptedModel:
    assert contract.spec.tool is not None
    call_ = (f"{contract.spec.tool.function}_0", contract.arguments(host))
    return ScriptedModel(replies=[tool_calls(call_), Reply("It is so.")])


@every_contract
async def test_an_agent_uses_the_tool(contract: Contract) -> None:
    assert contract.spec.tool is not None
    stub = contract.stub()
    async with service_of(contract, stub) as (host, services):
        call_ = MockCall(name=f"{contract.spec.tool.function}_0", arguments=contract.arguments(host))
        async with MockLLM([reply(calls=[call_]), reply("It is so.")]) as model:
            models = ConfiguredModels(ChatModelSettings(providers={"Test": ProviderSettings(model.base_url, "k")}))
            services = replace_struct(services, models=models)
            runner = runner_of(agent_with(contract), services=services, saver=InMemorySaver())
            run = runner.start("s", {"query": "Tell me."})
            async for _ in run:
                pass
            state = await runner.state("s")
            await models.aclose()
    assert run.status == "succeeded"
    assert "It is so." in state["outputs"]["a"]["content"]
    (result,) = [m["content"] for m in model.requests[-1].body["messages"] if m["role"] == "tool"]
    assert contract.says in result
    assert stub.received
    assert ("references" in state["turn"]) == (contract.spec.outputs is SearchOutputs)
    if contract.key:
        assert contract.key not in json.dumps(state, default=str)


@each_row("contract", [c for c in CONTRACTS if c.nothing])
async def test_nothing_found_is_no_error(contract: Contract) -> None:
    result = await call(contract, contract.nothing)
    assert result.error is None
    assert contract.says not in text_of(contract, result)


@each_row("contract", KEYED)
async def test_a_wrong_key_is_an_error_without_the_key(contract: Contract) -> None:
    result = await call(contract, key="wr0ng-s3cret")
    assert result.error
    assert "wr0ng-s3cret" not in result.error


@each_row("contract", KEYED)
async def test_the_key_of_the_canvas_is_used_first(contract: Contract) -> None:
    assert contract.spec.tool is not None
    assert contract.spec.tool.service is not None
    params: dict[str, Any] = {contract.spec.tool.service.key_param: contract.key}
    result = await call(contract, key="wr0ng", **params)
    assert result.error is None


@every_contract
async def test_a_rate_limit_is_an_error_with_the_pause(contract: Contract) -> None:
    stub = contract.stub()
    stub.fault = "busy"
    result = await call(contract, stub=stub)
    assert result.error
    assert ("It asks clients to wait 1 s." in result.error) == bool(stub.busy.headers)


@every_contract
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("page", "502"),
        ("page_200", "answered"),
        ("slow", "did not answer within 0.3 s"),
        ("cut", "did not send a valid, complete HTTP response"),
    ],
)
async def test_broken_answers_are_errors(contract: Contract, fault: Fault, says: str) -> None:
    stub = contract.stub()
    stub.fault = fault
    result = await call(contract, stub=stub, timeout_s=0.3 if fault == "slow" else 10.0)
    if fault == "page_200" and contract.reads_any_text:
        assert "Bad Gateway" in text_of(contract, result)
        return
    assert says in str(result.error)
