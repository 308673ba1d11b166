from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.integrations.search.searxng import searxng
from tests.fakes.run import run_component
from tests.fakes.services import fake_services
from tests.fakes.tool_stubs import searxng as service
from tests.fakes.tool_stubs.stub import serving
from tests.integrations.search.contracts import run_tool


async def test_the_request_and_the_first_results() -> None:
    stub = service.stub()
    result = await run_tool("SearXNG", stub, query="Laos", top_n="2")
    sent = {
        "q": "Laos",
        "format": "json",
        "categories": "general",
        "language": "auto",
        "safesearch": "1",
        "pageno": "1",
    }
    assert stub.received[0].query == sent
    assert [row["url"] for row in result.outputs["json"]] == ["https://example.org/0", "https://example.org/1"]


async def test_an_instance_without_json_is_an_error() -> None:
    assert "SearXNG answered 403" in str((await run_tool("SearXNG", query="forbidden")).error)


async def test_the_canvas_can_name_the_instance_but_not_one_in_a_private_network() -> None:
    async with serving(service.stub()) as host:
        for allowed in ((host,), ()):
            http = GuardedHttpClient(HttpSettings(allow=allowed))
            params = {"query": "Laos", "searxng_url": f"http://{host}/"}
            result = await run_component(searxng, params, services=fake_services(http=http))
            await http.aclose()
            assert (result.error is None) == bool(allowed)
            assert allowed or "[http] allow" in str(result.error)


async def test_without_an_instance_nothing_is_requested() -> None:
    result = await run_component(searxng, {"query": "Laos"}, services=fake_services())
    assert (result.error, result.outputs["json"], result.outputs["formalized_content"]) == (None, [], "")
