import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from ragflow_lg.server.http.native.problem_details import STATUS_DESCRIPTIONS
from tests.server.cli.command import ROOT, run_documented
from tests.server.http.app_server import FORM, AppServer, start_app
from tests.server.http.native.native_client import native_agent

STREAMS = {"native_stream_new_run", "native_follow_run"}
PICTURES = {"native_draw", "native_get_run_file"}


OF_VISITORS = {
    "PUT /native/v1/agents/{agent_id}/runs/{run_id}/feedback",
    "GET /native/v1/agents/{agent_id}/sessions/{session_id}/visit",
}


async def document(folder: Path) -> dict[str, Any]:
    async with start_app(folder) as server:
        return await server.get(f"{server.url}/openapi.json")


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        if path.startswith("/native/v1/")
        for method, operation in methods.items()
    ]


async def test_the_document_is_valid_and_complete(tmp_path: Path) -> None:
    api = await document(tmp_path)
    OpenAPIV31SpecValidator(api).validate()
    assert len(operations(api)) >= 45
    names = [operation["operationId"] for _, _, operation in operations(api)]
    assert len(set(names)) == len(names)
    for method, path, operation in operations(api):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["description"], where
        is_public, is_of_visitors = "/shared/" in path, path.startswith("/native/v1/files") or where in OF_VISITORS
        page_key: list[dict[str, list[str]]] = [{"BetaKey": []}] if is_of_visitors else []
        assert operation.get("security", []) == ([] if is_public else [{"ApiKey": []}, *page_key]), where
        assert {"413", "422", "429", "500", "503"} <= set(operation["responses"]), where
        assert ("401" in operation["responses"]) is not is_public, where
        assert ("404" in operation["responses"]) is ("{" in path or where == "POST /native/v1/keys"), where
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ProblemAnswer"}, (where, status)
        success = next(answer for status, answer in operation["responses"].items() if int(status) < 300)
        if operation["operationId"] in STREAMS:
            assert list(success["content"]) == ["text/event-stream"], where
        elif operation["operationId"] not in PICTURES and "204" not in operation["responses"]:
            assert "application/json" in success["content"], where
        body = operation.get("requestBody")
        kinds = (["application/json"], ["application/octet-stream"])
        assert body is None or list(body["content"]) in kinds, where


async def test_examples_and_answers_fit_the_document(tmp_path: Path) -> None:
    api = await document(tmp_path)
    registry = Registry[Any](retrieve=lambda uri: Resource[Any](api, DRAFT202012))

    def check(name: str, value: Any) -> None:
        validator: Any = Draft202012Validator({"$ref": f"urn:api#/components/schemas/{name}"}, registry=registry)
        validator.validate(value)

    for name in ("RunRequest", "ResumeRequest", "RerunRequest", "ForkRequest", "OpenSession", "PublishRequest"):
        examples = api["components"]["schemas"][name]["examples"]
        for example in examples:
            check(name, example)
    async with native_agent(tmp_path, FORM) as (_, client):
        run = (await client.post("/runs", json={"query": "hi"})).json()
        check("RunAnswer", run)
        check("RunListAnswer", (await client.get("/runs")).json())
        check("SessionWhole", (await client.get(f"/sessions/{run['session_id']}")).json())
        check("SessionListAnswer", (await client.get("/sessions")).json())
        check("HistoryAnswer", (await client.get(f"/sessions/{run['session_id']}/history")).json())
        check("VersionListAnswer", (await client.get("/versions")).json())
        check("VersionWhole", (await client.get("/versions/draft")).json())
        check("ProblemAnswer", (await client.get("/versions/nothing")).json())
        check(
            "CheckAnswer", (await client.post(str(client.base_url.copy_with(path="/native/v1/check")), json={})).json()
        )


@pytest.mark.parametrize("path", ["/native/v1", "/native/v1/agents/x/runs", "/native/v1/agents/../check"])
async def test_every_native_path_answers_with_problems(server: AppServer, path: str) -> None:
    answer = await server.client.get(server.url + path, headers={"Authorization": "nothing"})
    assert answer.json()["error"]["status"] == answer.status_code in (401, 404, 405)


PAGE = (ROOT / "docs" / "native_api.md").read_text("utf-8")
TASKS = dict(re.findall(r"^## (.+?)\n.*?^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SET_UP = TASKS.pop("Set it up")
OUTPUTS = {
    "Start a run": '"status":"waiting"',
    "Answer forms": '"answer":"A parcel, size 42."',
    "Follow a run and reconnect": "event: end",
    "Cancel, continue, rerun, fork": '"status":"cancelled"',
    "Resume from any run": '"status":"waiting"',
    "Feedback": '"note":"Too long."',
    "Look inside a run": '"params_schema"',
    "Sessions": '"has_more":false',
    "Schedules": '"time_zone":"Europe/Berlin"',
    "Time limit of forms": '"timeout_s":86400',
    "Versions": '"is_published":true',
    "Check and draw a canvas": '"runs":true',
}


def test_every_task_and_code_is_documented() -> None:
    assert set(TASKS) == set(OUTPUTS)
    text = " ".join(STATUS_DESCRIPTIONS.values())
    assert [
        code for code in re.findall(r"`([a-z]+-[a-z-]+)`", text) if f"`{code}`" not in PAGE and "-A" not in code
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(OUTPUTS))
async def test_the_commands_work(server: AppServer, task: str) -> None:
    assert OUTPUTS[task] in await run_documented(SET_UP + TASKS[task], SERVER=server.url, KEY=server.key)
