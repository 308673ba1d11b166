from pathlib import Path

from ragflow_lg.server.http.document.front_end_operations import FRONT_END_ROUTES, OLDER_FRONT_END_ROUTES
from tests.server.http.app_server import start_app


async def test_a_server_without_the_front_end_describes_none_of_its_routes(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        document = (await server.client.get(f"{server.url}/openapi.json")).json()
        assert not {route.partition(" ")[2] for route in (*FRONT_END_ROUTES, *OLDER_FRONT_END_ROUTES)} & set(
            document["paths"]
        )
        assert "SignedIn" not in document["components"]["schemas"]
