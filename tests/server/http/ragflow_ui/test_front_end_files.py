from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.ragflow_ui.front_end_files import RESERVED, check_build
from tests.server.http.app_server import start_app
from tests.server.http.ragflow_ui.ui_server import PAGE, SCRIPT, start_ui


async def test_files_and_pages_are_served_beside_the_apis(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for path in ("/", "/index.html", "/agents", "/agent/0123/explore", "/login", "/agents/"):
            page = await server.client.get(f"{server.url}{path}")
            assert (page.status_code, page.text) == (200, PAGE), path
            assert page.headers["cache-control"] == "no-cache"
            assert "frame-ancestors 'self'" in page.headers["content-security-policy"]
        script = await server.client.get(f"{server.url}/entry/js/index-1a2b.js")
        assert script.text == SCRIPT
        assert script.headers["content-encoding"] == "gzip"
        assert "immutable" in script.headers["cache-control"]
        again = await server.client.get(
            f"{server.url}/entry/js/index-1a2b.js", headers={"If-None-Match": script.headers["etag"]}
        )
        assert again.status_code == 304
        assert (await server.client.get(f"{server.url}/health")).json() == {"status": "ok"}
        for path in ("/api/v1/nothing", "/v1/nothing", "/native/v1/nothing"):
            missing = await server.client.get(f"{server.url}{path}")
            assert missing.status_code == 404
            assert "default-src 'none'" in missing.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["/../secret.txt", "/%2e%2e/secret.txt", "/entry/..%2f..%2fsecret.txt", "/..%5csecret.txt", "/missing.js"]
)
async def test_nothing_outside_the_build_is_served(tmp_path: Path, path: str) -> None:
    async with start_ui(tmp_path) as server:
        answer = await server.client.get(f"{server.url}{path}")
        assert answer.status_code == 404
        assert "secret" not in answer.text.replace("secret.txt", "")


async def test_only_shared_pages_can_be_embedded_and_only_by_allowed_origins(tmp_path: Path) -> None:
    async with start_ui(tmp_path, allow_origins=("https://shop.example",)) as server:
        share = await server.client.get(f"{server.url}/agent/share?shared_id=1")
        assert share.headers["content-security-policy"].endswith("frame-ancestors 'self' https://shop.example")
        editor = await server.client.get(f"{server.url}/agent/0123")
        assert editor.headers["content-security-policy"].endswith("frame-ancestors 'self'")


async def test_no_path_of_an_api_is_hidden(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        document = (await server.client.get(f"{server.url}/openapi.json")).json()
        assert {path.split("/")[1] for path in document["paths"]} | {"openapi.json"} == RESERVED | {""}


async def test_the_front_end_is_off_by_default(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        assert (await server.client.get(f"{server.url}/")).json()["name"] == "ragflow-lg"
        assert (await server.client.get("/system/config")).status_code == 404
        assert (await server.client.get(f"{server.url}/agents")).status_code == 404


def test_a_folder_without_a_build_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web").mkdir()
    for folder, problem in (("web", "has no index.html"), ("web/dist", "does not exist")):
        with pytest.raises(SettingsError) as refused:
            check_build(Path(folder))
        assert f"'{folder}', but '{tmp_path}/{folder}' {problem}: build RAGFlow's folder web/" in str(refused.value)
