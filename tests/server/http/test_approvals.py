"""Calls that the user must approve, over the APIs: the form of an agent, which is answered as every other form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from ragflow_lg.server.settings.sections import AgentsSection
from tests.fakes.agents import tool_calls
from tests.fakes.services import Reply
from tests.server.http.app_server import APPROVING, AppServer, frames, start_app

REPLIES = [tool_calls(("Helper_0", {"user_prompt": "pay 100"})), Reply("paid"), Reply("All is paid.")]


def answers(form: Mapping[str, Any], decision: str) -> dict[str, Any]:
    """Return the fields that decide about all calls of a form."""
    return {name: {"value": decision} for name in form if name.startswith("decision")}


@pytest.mark.parametrize("version", ["0.27", "1.0"])
@pytest.mark.parametrize("is_streamed", [True, False])
async def test_ragflow_clients_approve_in_a_form(server: AppServer, version: str, *, is_streamed: bool) -> None:
    server.model.replies += REPLIES
    server.client.headers["X-RAGFlow-Compat"] = version
    agent_id = await server.agent(APPROVING)
    if is_streamed:
        received = await server.stream(agent_id)
        asked = next(frame for frame in received if frame["event"] in ("user_inputs", "waiting_for_user"))
    else:
        asked = (await server.ask(agent_id, stream=False))["data"]
    assert '"user_prompt": "pay 100"' in asked["data"]["tips"]
    form = asked["data"]["inputs"]
    assert [field["type"] for field in form.values()] == ["options", "line"]
    path, body = "/agents/chat/completions", {"agent_id": agent_id, "session_id": asked["session_id"]}
    response = await server.client.post(path, json={**body, "inputs": answers(form, "approve"), "stream": False})
    assert response.json()["data"]["data"]["content"].endswith("All is paid.")
    assert "X-Ignored-Fields" not in response.headers
    assert len(server.model.replies) == 0


async def test_openai_clients_approve_with_a_message(server: AppServer) -> None:
    server.model.replies += REPLIES
    url = f"{server.url}/api/v1/agents_openai/{await server.agent(APPROVING)}"
    async with openai.AsyncOpenAI(api_key=server.key, base_url=url) as client:
        ask = client.chat.completions.create
        asked = await ask(model="any", messages=[{"role": "user", "content": "Pay"}])
        assert asked.choices[0].finish_reason == "waiting_for_user"
        answer = await ask(
            model="any", messages=[{"role": "user", "content": "approve"}], extra_body={"session_id": asked.id}
        )
    assert (answer.choices[0].message.content or "").endswith("All is paid.")
    assert server.model.requests[-1][1].messages[0] == {"role": "user", "content": "Pay"}


async def test_clients_of_responses_approve_with_a_message(server: AppServer) -> None:
    server.model.replies += REPLIES
    url = f"{server.url}/api/v1/agents_openai/{await server.agent(APPROVING)}"
    async with openai.AsyncOpenAI(api_key=server.key, base_url=url) as client:
        asked = await client.responses.create(model="any", input="Pay")
        assert '"user_prompt": "pay 100"' in asked.output_text
        answer = await client.responses.create(model="any", input="approve", previous_response_id=asked.id)
    assert answer.output_text.endswith("All is paid.")


async def test_native_clients_refuse_with_a_reason(server: AppServer) -> None:
    server.model.replies += [REPLIES[0], Reply("Then not.")]
    client = server.client
    base = f"{server.url}/native/v1/agents/{await server.agent(APPROVING)}"
    run = (await client.post(f"{base}/runs", json={"query": "Pay"})).json()
    (pause,) = run["pauses"]
    decision, reason = pause["answer_schema"]["properties"]
    assert pause["answer_schema"]["properties"][decision]["enum"] == ["approve", "refuse"]
    body = {"answers": {pause["id"]: {decision: "refuse", reason: "Too much."}}}
    done = (await client.post(f"{base}/runs/{run['id']}/resume", json=body)).json()
    assert done["answer"].endswith("Then not.")
    assert server.model.requests[-1][1].messages[-1]["content"].endswith("the user refused it. Too much.")


async def test_visitors_neither_see_nor_approve_calls(server: AppServer) -> None:
    server.model.replies += REPLIES
    page, agent_id = await server.page(), await server.agent(APPROVING)
    path = f"/agentbots/{agent_id}/completions"
    received = frames((await server.client.post(path, json={"query": "Pay"}, headers=page)).text)
    form = next(frame for frame in received if frame["event"] == "user_inputs")
    assert (form["data"]["inputs"], "pay 100" in str(received)) == ({}, False)
    session = form["session_id"]
    base = f"{server.url}/native/v1/agents/{agent_id}"
    seen = await server.client.get(f"{base}/sessions/{session}/visit", headers=page)
    assert [(shown["id"], shown["fields"]) for shown in seen.json()["pauses"]] == [("", {})]
    assert "pay 100" not in seen.text
    (pause,) = (await server.client.get(f"{base}/sessions/{session}/pauses")).json()
    for answer in ({"query": "approve"}, {"query": "", "inputs": answers(pause["fields"], "approve")}):
        body = {**answer, "session_id": session, "stream": False}
        assert (await server.post(path, body, headers=page))["data"]["event"] == "user_inputs"
    assert len(server.model.replies) == 2
    run = (await server.client.get(f"{base}/runs?session_id={session}")).json()["runs"][-1]
    decided = {"answers": {pause["id"]: {next(iter(pause["fields"])): "approve"}}}
    done: httpx.Response = await server.client.post(f"{base}/runs/{run['id']}/resume", json=decided)
    assert done.json()["answer"].endswith("All is paid.")


async def test_visitors_approve_if_the_settings_say_so(tmp_path: Path) -> None:
    sections = {"agents": AgentsSection(visitors_approve=True, ask_tools=("Agent",))}
    async with start_app(tmp_path, REPLIES, sections=sections) as server:
        page, path = await server.page(), f"/agentbots/{await server.agent(APPROVING)}/completions"
        form = (await server.post(path, {"query": "Pay", "stream": False}, headers=page))["data"]
        inputs = answers(form["data"]["inputs"], "approve")
        body = {"query": "", "session_id": form["session_id"], "inputs": inputs, "stream": False}
        answer = await server.post(path, body, headers=page)
        assert answer["data"]["data"]["content"].endswith("All is paid.")
