from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.settings.limits_section import PausesSection
from tests.server.http.app_server import FORM, AppServer, start_app
from tests.server.http.native.native_client import native, problem

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
