import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.http.native import native_session_routes
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, AppServer, canvas
from tests.server.http.native.native_client import native, native_agent, play_one, problem
from tests.server.waiting import wait_while

MISSING = "0" * 32
PROMPTS = [{"role": "user", "content": "Answer {sys.query} with key={env.api_key}"}]
CHAIN = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "sys_prompt": "Be kind", "prompts": PROMPTS}, ["LLM:1"]),
    ("LLM:1", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{LLM:0@content}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:1@content}"]}, []),
)
CHAIN["globals"] = {"sys.query": "", "env.api_key": "sesame-4711-open"}
CHAIN["variables"] = {"api_key": {"type": "string", "value": "sesame-4711-open"}}


def edited(node: str, **params: Any) -> dict[str, Any]:
    dsl = copy.deepcopy(CHAIN)
    dsl["components"][node]["obj"]["params"] |= params
    return dsl


async def find_moment(client: Any, run: Any, node: str) -> str:
    moments = (await client.get(f"/sessions/{run['session_id']}/history")).json()["moments"]
    return next(m["checkpoint"] for m in moments if [n["id"] for n in m["next"]] == [node])


async def test_model_calls_are_shown_as_they_were_sent_without_secrets(server: AppServer) -> None:
    client, run = await play_one(server, CHAIN, "First", "Second", query="ping")
    shown = (await client.get(f"/runs/{run['id']}/nodes")).json()
    first, second = shown["calls"]
    assert (first["node"], first["model"], first["system"], first["answer"]) == ("LLM:0", "m", "Be kind", "First")
    assert first["messages"] == [{"role": "user", "content": "Answer ping with key=***"}]
    assert (second["messages"][-1]["content"], second["answer"]) == ("First", "Second")
    assert [visit["node"] for visit in shown["visits"]] == ["begin", "LLM:0", "LLM:1", "Message:0"]
    assert {visit["attempts"] for visit in shown["visits"]} == {1}
    assert shown["usage"]["prompt_tokens"] == run["usage"]["prompt_tokens"]
    assert run["start_ms"] - 1 <= first["start_ms"] <= run["end_ms"] + 1


async def test_a_retried_node_shows_its_attempts_and_the_failed_call(server: AppServer) -> None:
    dsl = edited("LLM:0", max_retries=2, delay_after_error=0)
    server.model.replies += [Reply(error="The model is busy."), Reply("First"), Reply("Second")]
    client, run = await play_one(server, dsl, query="ping")
    shown = (await client.get(f"/runs/{run['id']}/nodes")).json()
    assert [(v["node"], v["attempts"], v["is_failed"]) for v in shown["visits"]][1] == ("LLM:0", 2, False)
    assert (shown["calls"][0]["error"], shown["calls"][0]["answer"]) == ("The model is busy.", "")


async def test_a_run_without_models_lists_its_nodes_and_strangers_see_nothing(server: AppServer) -> None:
    client, run = await play_one(server, ECHO, query="ping")
    shown = (await client.get(f"/runs/{run['id']}/nodes")).json()
    visits = [visit["node"] for visit in shown["visits"]]
    assert (visits, shown["calls"], shown["dropped_calls"]) == (["begin", "Message:0"], [], 0)
    assert problem(await client.get(f"/runs/{MISSING}/nodes")) == (404, "not-found")
    other = await server.new_key("other")
    checkpoint = run["checkpoint"]
    for path in (f"/runs/{run['id']}/nodes", f"/sessions/{run['session_id']}/history/{checkpoint}"):
        assert problem(await client.get(path, headers={"Authorization": f"Bearer {other}"})) == (404, "not-found")
    tried = await client.post("/node-runs", json={"node": "Message:0"}, headers={"Authorization": f"Bearer {other}"})
    assert problem(tried) == (404, "not-found")


async def test_a_step_shows_its_variables_and_what_has_changed(server: AppServer) -> None:
    server.model.replies += [Reply("First"), Reply(" ".join(map(str, range(6_000))))]
    client, run = await play_one(server, CHAIN, query="ping")
    path = f"/sessions/{run['session_id']}/history"
    moment = (await client.get(f"{path}/{await find_moment(client, run, 'LLM:1')}")).json()
    variables = {variable["name"]: variable for variable in moment["variables"]}
    assert (variables["LLM:0@content"]["value"], variables["LLM:0@content"]["change"]) == ("First", "added")
    assert variables["sys.query"] == {
        "name": "sys.query",
        "value": "ping",
        "is_whole": True,
        "change": "same",
        "before": None,
    }
    assert (variables["env.api_key"]["value"], variables["env.api_key"]["is_whole"]) == ("***", False)
    assert moment["previous"]
    assert moment["variables"][0]["change"] != "same"
    end = (await client.get(f"{path}/{run['checkpoint']}")).json()
    (long,) = [variable for variable in end["variables"] if variable["name"] == "LLM:1@content"]
    assert (len(long["value"]) < 21_000, long["is_whole"]) == (True, False)
    assert problem(await client.get(f"{path}/{MISSING}")) == (404, "not-found")
    assert problem(await client.get(f"{path}/a.b")) == (422, "invalid")
    server.model.replies += [Reply(str(n)) for n in range(4)]
    client, run = await play_one(server, CHAIN, query="one")
    await client.post("/runs", json={"query": "two", "session_id": run["session_id"]})
    moment_id = await find_moment(client, run, "LLM:0")
    moment = (await client.get(f"/sessions/{run['session_id']}/history/{moment_id}")).json()
    removed = {v["name"]: v["before"] for v in moment["variables"] if v["change"] == "removed"}
    changed = {v["name"]: (v["before"], v["value"]) for v in moment["variables"] if v["change"] == "changed"}
    assert (removed["LLM:1@content"], changed["sys.query"]) == ("1", ("one", "two"))


async def test_a_rerun_with_another_canvas_leaves_the_agent_as_it_is(server: AppServer) -> None:
    client, run = await play_one(server, CHAIN, "First", "Second", "Third", query="ping")
    draft = (await client.get("/versions/draft")).json()
    dsl = edited("LLM:1", sys_prompt="Be brief")
    rerun = (await client.post(f"/runs/{run['id']}/rerun", json={"node": "LLM:1", "dsl": dsl})).json()
    assert (rerun["status"], rerun["answer"], server.model.requests[-1][1].system) == ("succeeded", "Third", "Be brief")
    assert server.model.requests[-1][1].messages[-1]["content"] == "First"
    assert rerun["version_id"] != run["version_id"]
    assert (await client.get("/versions/draft")).json() == draft
    assert (await client.get(f"/sessions/{rerun['session_id']}")).json()["version_id"] == rerun["version_id"]
    broken = copy.deepcopy(dsl)
    broken["components"]["LLM:1"]["downstream"] = ["None:0"]
    empty: dict[str, Any] = {"components": {}}
    for wrong in (broken, empty):
        refused = await client.post(f"/runs/{run['id']}/rerun", json={"node": "LLM:1", "dsl": wrong})
        assert refused.status_code in (400, 422), refused.text


async def test_a_canvas_that_cannot_continue_is_refused_and_leaves_no_session(server: AppServer) -> None:
    client, run = await play_one(server, FORM)
    moment = await find_moment(client, run, "UserFillUp:0")
    dsl = copy.deepcopy(FORM)
    dsl["components"]["UserFillUp:9"] = dsl["components"].pop("UserFillUp:0")
    dsl["components"]["begin"]["downstream"] = ["UserFillUp:9"]
    for part in dsl["components"].values():
        params = part["obj"]["params"]
        if "content" in params:
            params["content"] = [text.replace("UserFillUp:0", "UserFillUp:9") for text in params["content"]]
    before = (await client.get("/sessions")).json()["total"]
    refused = await client.post(f"/runs/{run['id']}/fork", json={"checkpoint": moment, "dsl": dsl})
    assert problem(refused) == (409, "canvas-changed")
    assert "UserFillUp.0 is gone" in refused.json()["error"]["message"]
    assert (await client.get("/sessions")).json()["total"] == before


async def test_a_node_runs_alone_with_what_a_run_has_left(server: AppServer) -> None:
    client, run = await play_one(server, CHAIN, "First", "Second", "Alone", "Edited", "Fresh", query="ping")
    alone = (await client.post("/node-runs", json={"node": "LLM:1", "run_id": run["id"]})).json()
    assert (alone["outputs"]["content"], alone["error"], alone["inputs"]) == ("Alone", "", {"LLM:0@content": "First"})
    assert [call["messages"][-1]["content"] for call in alone["calls"]] == ["First"]
    body = {"node": "LLM:0", "run_id": run["id"], "dsl": edited("LLM:0", sys_prompt="Be brief")}
    other = (await client.post("/node-runs", json={**body, "inputs": {"sys.query": "pong"}})).json()
    assert other["calls"][0]["system"] == "Be brief"
    assert other["calls"][0]["messages"] == [{"role": "user", "content": "Answer pong with key=***"}]
    fresh = (await client.post("/node-runs", json={"node": "LLM:1", "inputs": {"LLM:0@content": "x"}})).json()
    assert (fresh["outputs"]["content"], fresh["inputs"]) == ("Fresh", {"LLM:0@content": "x"})
    assert len(server.model.requests) == 5
    assert (await client.get(f"/runs?session_id={run['session_id']}")).json()["total"] == 1
    assert problem(await client.post("/node-runs", json={"node": "LLM:9"}))[0] in (404, 422, 400)
    assert problem(await client.post("/node-runs", json={"node": "LLM:1", "run_id": MISSING})) == (404, "not-found")
    unknown = await client.post("/node-runs", json={"node": "LLM:1", "inputs": {"sys.files": 1}})
    assert unknown.status_code in (400, 422)
    assert problem(await client.post("/node-runs", json={**body, "version": "draft"})) == (422, "invalid")


async def test_a_component_is_described_by_a_schema(server: AppServer) -> None:
    client = native(server)
    shown = (await client.get("/components/LLM")).json()
    assert shown["params_schema"]["properties"]["sys_prompt"]["anyOf"][0] == {"type": "string"}
    assert set(shown["params_schema"]["$defs"]) == {"LLM.Prompt"}
    parameters = {parameter["name"]: parameter["type"] for parameter in shown["parameters"]}
    assert parameters["sys_prompt"] == "text with references"
    assert "max_retries" in shown["common"]
    assert problem(await client.get("/components/None")) == (404, "not-found")


KEYS = ["hdrkey-112233", "urlkey-778899", "llmkey-998877"]


async def test_keys_in_params_of_any_node_are_taken_out(server: AppServer) -> None:
    prompts = [{"role": "user", "content": " ".join(KEYS)}]
    headers = json.dumps({"X-Api-Key": KEYS[0]})
    dsl = canvas(
        ("begin", "Begin", {}, ["LLM:0"]),
        ("LLM:0", "LLM", {"llm_id": "m", "api_key": KEYS[2], "prompts": prompts}, ["Message:0"]),
        ("Invoke:0", "Invoke", {"url": f"http://127.0.0.1:9/?api_key={KEYS[1]}", "headers": headers}, []),
        ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
    )
    server.model.replies += [Reply(" ".join(KEYS)), Reply(" ".join(KEYS))]
    client, run = await play_one(server, dsl, query="ping")
    texts = [
        (await client.get(f"/runs/{run['id']}/nodes")).text,
        (await client.get(f"/sessions/{run['session_id']}/history/{run['checkpoint']}")).text,
        (await client.get(f"/sessions/{run['session_id']}/run-file")).text,
        (await client.post("/node-runs", json={"node": "LLM:0"})).text,
    ]
    assert all("***" in text for text in texts)
    assert [(at, key) for at, text in enumerate(texts) for key in KEYS if key in text] == []


async def test_secrets_of_another_version_or_a_fork_are_taken_out(server: AppServer) -> None:
    client, run = await play_one(server, CHAIN, "sesame-4711-open", "b", "c", "d", query="ping")
    checkpoint = await find_moment(client, run, "LLM:0")
    fork = f"/runs/{run['id']}/fork"
    changed = (
        await client.post(fork, json={"checkpoint": checkpoint, "changes": {"env.api_key": "other-key-4242-zz"}})
    ).json()
    ended = (await client.post(f"/runs/{changed['id']}/continue", json={})).json()
    other = copy.deepcopy(CHAIN)
    other["globals"]["env.api_key"] = other["variables"]["api_key"]["value"] = "barley-9922-shut"
    rotated = (await client.post(fork, json={"dsl": other})).json()
    shown = [(await client.get(f"/sessions/{each['session_id']}/run-file")).text for each in (ended, rotated)]
    shown.append((await client.get(f"/runs/{ended['id']}/nodes")).text)
    assert "other-key-4242-zz" not in shown[0] + shown[2]
    assert "sesame-4711-open" not in shown[1]


async def test_secrets_of_the_versions_of_earlier_runs_are_taken_out_of_a_run_file(server: AppServer) -> None:
    key = "llmkey-998877"
    server.model.replies += [Reply(f"It is {key}"), Reply("b"), Reply("c"), Reply("d")]
    client = native(server, await server.agent(edited("LLM:0", api_key=key)))
    await client.post("/versions", json={})
    run = (await client.post("/runs", json={"query": "ping"})).json()
    other = (await client.post("/versions", json={"dsl": CHAIN})).json()
    session = f"/sessions/{run['session_id']}"
    pinned = await client.put(f"{session}/version", json={"version": other["id"]})
    assert pinned.status_code == 200, pinned.text
    shown = (await client.get(f"{session}/run-file")).text
    assert "It is ***" in shown
    assert key not in shown


async def test_a_run_file_takes_a_limited_time(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client, run = await play_one(server, CHAIN, "a", "b", query="ping")
    monkeypatch.setattr(native_session_routes, "LIMIT_S", 0.0)
    assert problem(await client.get(f"/sessions/{run['session_id']}/run-file")) == (422, "work-limit")


async def test_a_refused_copy_with_a_draft_leaves_no_version(server: AppServer) -> None:
    server.model.replies += [Reply(str(number)) for number in range(9)]
    client, run = await play_one(server, CHAIN, query="ping")
    before = (await client.get("/versions")).json()
    dsl = edited("LLM:1", sys_prompt="Be brief")
    for path, body in (
        ("fork", {"checkpoint": "f" * 20}),
        ("fork", {"changes": {"env.nothing": 1}}),
        ("rerun", {"node": "LLM:9"}),
        ("rerun", {"node": "LLM:1", "changes": {"env.nothing": 1}}),
    ):
        refused = await client.post(f"/runs/{run['id']}/{path}", json={**body, "dsl": dsl})
        assert problem(refused) == (422, "place-unknown"), refused.text
    assert (await client.get("/versions")).json() == before
    assert (await client.post(f"/runs/{run['id']}/rerun", json={"node": "LLM:1", "dsl": dsl})).status_code == 200
    assert len((await client.get("/versions")).json()["versions"]) == len(before["versions"]) + 1


async def test_tokens_count_if_the_client_of_a_node_run_disconnects(tmp_path: Path) -> None:
    quotas = {"tenants": {"tenant": {"tokens_day": 10}}}
    dsl = edited("LLM:0", sys_prompt="Be kind. " * 20)
    async with native_agent(tmp_path, dsl, [Reply("a", hangs=True)], sections=quotas) as (server, client):
        asked = asyncio.create_task(client.post("/node-runs", json={"node": "LLM:0"}))
        await wait_while(lambda: not server.model.requests)
        asked.cancel()
        used = 0
        while not used:
            day = (await client.get(f"{server.url}/native/v1/quotas")).json()["quotas"]
            used = next(quota["used"] for quota in day if quota["name"] == "tokens_day")
        assert used >= 45
        assert problem(await client.post("/node-runs", json={"node": "LLM:0"})) == (429, "quota-exceeded")


async def test_a_fork_has_the_answer_of_the_turn_at_whose_end_it_begins(server: AppServer) -> None:
    server.model.replies += [Reply(str(number)) for number in range(8)]
    client = native(server, await server.agent(CHAIN))
    first = (await client.post("/runs", json={"query": "ping"})).json()
    body = {"query": "again", "session_id": first["session_id"]}
    second = (await client.post("/runs", json=body)).json()
    assert [first["answer"], second["answer"]] == ["1", "3"]
    for run in (first, second):
        fork = (await client.post(f"/runs/{run['id']}/fork", json={})).json()
        assert (fork["status"], fork["answer"]) == ("succeeded", run["answer"])
        await client.post("/runs", json={**body, "session_id": fork["session_id"]})
        assert (await client.get(f"/runs/{fork['id']}")).json()["answer"] == run["answer"]
    assert (await client.get(f"/runs/{first['id']}")).json()["answer"] == "1"
