from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.settings.limits_section import PausesSection
from tests.server.http.app_server import ECHO, FORM, AppServer, canvas, start_app
from tests.server.http.native.native_client import native, problem

DAY_MS = 86_400_000
BODY = {"cron": "0 9  * * *", "time_zone": "Asia/Tokyo", "query": "Hi", "session_name": "Daily"}


async def test_a_schedule_is_created_listed_and_deleted(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    made = await client.post("/schedules", json=BODY)
    assert made.status_code == 201, made.text
    schedule: dict[str, Any] = made.json()
    first, second, third = schedule["next_ms"]
    assert first % DAY_MS == 0  # 09:00 in Tokyo is midnight in UTC
    assert (second - first, third - second) == (DAY_MS, DAY_MS)
    assert (schedule["cron"], schedule["time_zone"], schedule["session_name"]) == ("0 9 * * *", "Asia/Tokyo", "Daily")
    assert (schedule["last_run_id"], schedule["error"]) == ("", "")
    assert (await client.get("/schedules")).json() == {"schedules": [schedule]}
    assert (await client.get("/schedules?page=2")).json() == {"schedules": []}
    async with native(server, await server.agent(ECHO, "Other")) as other:
        assert (await other.get("/schedules")).json() == {"schedules": []}
        assert problem(await other.delete(f"/schedules/{schedule['id']}")) == (404, "not-found")
    assert (await client.delete(f"/schedules/{schedule['id']}")).status_code == 204
    assert problem(await client.delete(f"/schedules/{schedule['id']}")) == (404, "not-found")
    assert (await client.get("/schedules")).json() == {"schedules": []}


@pytest.mark.parametrize(
    "change",
    [
        *({"cron": "* * * * * *"}, {"cron": ""}, {"cron": "1," * 99}, {"cron": 5}, {"cron": "0 0 30 2 *"}),
        *({"time_zone": "Europe/Atlantis"}, {"time_zone": "../x"}, {"time_zone": ""}, {"inputs": []}, {"more": 1}),
    ],
)
async def test_invalid_schedules_are_refused(server: AppServer, change: dict[str, Any]) -> None:
    client = native(server, await server.agent(ECHO))
    assert problem(await client.post("/schedules", json=BODY | change)) == (422, "invalid")
    assert (await client.get("/schedules")).json() == {"schedules": []}


async def test_inputs_and_versions_have_to_exist(server: AppServer) -> None:
    form = canvas(("begin", "Begin", {"inputs": {"city": {"type": "line"}}}, ["Message:0"]), ECHO_MESSAGE)
    client = native(server, await server.agent(form))
    assert problem(await client.post("/schedules", json=BODY | {"inputs": {"town": 1}})) == (422, "answer-invalid")
    assert problem(await client.post("/schedules", json=BODY | {"version": "published"})) == (404, "not-found")
    made = await client.post("/schedules", json=BODY | {"inputs": {"city": "Rome"}, "version": "draft"})
    assert made.status_code == 201


ECHO_MESSAGE = ("Message:0", "Message", {"content": ["{begin@city}"]}, list[str]())


PATH = "/pause-timeout"


async def test_an_agent_has_the_time_of_the_settings_until_it_has_its_own(tmp_path: Path) -> None:
    sections = {"pauses": PausesSection(timeout_s=60, answer="cancel")}
    async with start_app(tmp_path, sections=sections) as server, native(server, await server.agent(FORM)) as client:
        of_settings = {"timeout_s": 60, "answer": "cancel", "is_own": False}
        assert (await client.get(PATH)).json() == of_settings
        made = await client.put(PATH, json={"timeout_s": 0})
        assert (made.status_code, made.json()) == (200, {"timeout_s": 0, "answer": "defaults", "is_own": True})
        assert (await client.get(PATH)).json() == made.json()
        async with native(server, await server.agent(FORM, "Other")) as other:
            assert (await other.get(PATH)).json() == of_settings
        assert ((await client.delete(PATH)).json(), (await client.get(PATH)).json()) == (of_settings, of_settings)
        async with native(server, "0" * 32) as nobody:
            assert problem(await nobody.put(PATH, json={"timeout_s": 1})) == (404, "not-found")


@pytest.mark.parametrize(
    "body", [{}, {"timeout_s": -1}, {"timeout_s": 10**12}, {"timeout_s": True}, {"timeout_s": 1, "answer": "guess"}]
)
async def test_invalid_times_are_refused(server: AppServer, body: dict[str, Any]) -> None:
    client = native(server, await server.agent(FORM))
    assert problem(await client.put(PATH, json=body)) == (422, "invalid")
    assert (await client.get(PATH)).json() == {"timeout_s": 0, "answer": "defaults", "is_own": False}
