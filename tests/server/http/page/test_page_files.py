import pytest

from tests.server.http.app_server import AppServer

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def test_browsers_get_the_page_and_programs_the_greeting(server: AppServer) -> None:
    client = server.stranger()
    for path, headers in (("/", HTML), ("/page", {}), ("/docs", {})):
        page = await client.get(path, headers=headers)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert (await client.get("/")).json()["name"] == "ragflow-lg"
    assert (await client.post("/", headers=HTML)).status_code == 405


async def test_a_diagram_has_styles_but_no_origin_and_no_way_out(server: AppServer) -> None:
    policy = (await server.stranger().get("/page/diagram.html")).headers["content-security-policy"]
    rules = {name: value for name, _, value in (each.partition(" ") for each in policy.split("; "))}
    assert (rules["sandbox"], rules["default-src"], rules["script-src"]) == ("allow-scripts", "'none'", "'self'")
    assert rules.keys() == {
        "sandbox",
        "default-src",
        "script-src",
        "style-src",
        "base-uri",
        "form-action",
        "frame-ancestors",
    }
    assert rules["frame-ancestors"] == "'self'"


async def test_a_page_with_a_trailing_slash_is_at_the_address_without_it(server: AppServer) -> None:
    chat = f"/chat/{'0' * 32}"
    client = server.stranger()
    for path in ("/page", "/docs", chat):
        moved = await client.get(f"{path}/?key=a%20b")
        assert moved.status_code == 308
        page = await client.get(moved.url.join(moved.headers["location"]))
        assert (page.status_code, page.url.raw_path) == (200, f"{path}?key=a%20b".encode())
    assert ((await client.get("/", headers=HTML)).status_code, (await client.get("/health/")).status_code) == (200, 200)


@pytest.mark.parametrize("path", ["/page/page.css", "/page/main.js", "/page/vendor/preact.js"])
async def test_its_files_are_compressed_and_asked_for_again(server: AppServer, path: str) -> None:
    client = server.stranger()
    file = await client.get(path, headers={"accept-encoding": "gzip"})
    assert (file.status_code, file.headers["content-encoding"]) == (200, "gzip")
    assert file.headers["cache-control"] == "no-cache"
    assert (await client.get(path, headers={"if-none-match": file.headers["etag"]})).status_code == 304


@pytest.mark.parametrize(
    "path", ["/page/__init__.py", "/page/..%2fsettings/sections.py", "/page/js/none.js", "/page/vendor/preact.LICENSE"]
)
async def test_nothing_else_is_served(server: AppServer, path: str) -> None:
    assert (await server.stranger().get(path)).status_code == 404
