from pathlib import Path

import httpx

from tests.server.http.ragflow_ui.ui_server import start_ui


async def test_the_front_end_of_0_25_0_signs_in_and_asks_for_its_account(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server, httpx.AsyncClient(base_url=f"{server.url}/v1") as browser:
        assert (await browser.get("/system/config")).json()["data"]["disablePasswordLogin"] is True
        (channel,) = (await browser.get("/user/login/channels")).json()["data"]
        page = await browser.get(f"/user/login/{channel['channel']}")
        assert page.headers["content-type"].startswith("text/html")
        signed_in = await browser.post("/user/login", json={"email": "", "password": server.key})
        browser.headers["Authorization"] = signed_in.headers["Authorization"]
        person = (await browser.get("/user/info")).json()["data"]
        tenant = (await browser.get("/user/tenant_info")).json()["data"]
        assert person["id"] == tenant["tenant_id"]
        (listed,) = (await browser.get("/tenant/list")).json()["data"]
        assert listed["tenant_id"] == person["id"]
        assert (await browser.get(f"/tenant/{person['id']}/user/list")).json() == {
            "code": 0,
            "message": "success",
            "data": [],
        }
        assert (await browser.get("/user/logout")).json()["data"] is True


async def test_only_people_who_have_signed_in_are_described(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server, httpx.AsyncClient(base_url=f"{server.url}/v1") as stranger:
        for path in ("/user/info", "/user/tenant_info", "/tenant/list"):
            assert (await stranger.get(path)).status_code == 401
