from pathlib import Path

import pytest

from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.server.http.app_server import start_app

HANDBOOK = DatasetEntry(Dataset("0f3c", "Handbook", "bge-m3@SILICONFLOW"), 2, 31)
PRICES = DatasetEntry(Dataset("9a7e", "Prices"), 1, 4)


async def test_datasets_are_listed_with_their_sizes(tmp_path: Path) -> None:
    async with start_app(tmp_path, knowledge=ListedKnowledge(PRICES, HANDBOOK)) as server:
        body = (await server.client.get("/datasets")).json()
        assert (body["total_datasets"], "message" in body) == (2, False)
        row = body["data"][0]
        assert (row["id"], row["name"], row["chunk_count"], row["document_count"]) == ("0f3c", "Handbook", 31, 2)
        for query, ids in (
            ("ids=9a7e", ["9a7e"]),
            ("ids=9a7e&ids=0f3c,none", ["0f3c", "9a7e"]),
            ("id=9a7e", ["9a7e"]),
            ("name=Prices", ["9a7e"]),
            ('ext={"keywords":"hand"}', ["0f3c"]),
            ("page=2&page_size=1", ["9a7e"]),
        ):
            rows = (await server.client.get(f"/datasets?{query}")).json()["data"]
            assert [row["id"] for row in rows] == ids, query
        filters = (await server.client.get("/datasets?type=filter")).json()["data"]
        assert filters["filter"]["owner"][0]["count"] == 2
        metadata = (await server.client.get("/datasets/metadata/flattened?dataset_ids=0f3c,0f3c")).json()["data"]
        assert metadata == {"year": {"2026": ["0f3c-1"]}}


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/datasets?name=price", 102, "User 'tenant' lacks permission for dataset 'price'"),
        ("/datasets?id=none", 102, "User 'tenant' lacks permission for dataset 'none'"),
        ("/datasets?id=0f3c&ids=9a7e", 102, "not both"),
        ("/datasets?page_size=101", 101, "page_size"),
        (f"/datasets?ids={',x' * 101}", 101, "ids must contain at most 100 IDs"),
        ("/datasets/metadata/flattened", 102, "Lack of dataset_ids in query parameters"),
        ("/datasets/metadata/flattened?dataset_ids=0f3c,none", 102, "No authorization for dataset 'none'"),
    ],
)
async def test_unknown_datasets_are_refused(tmp_path: Path, path: str, code: int, message: str) -> None:
    async with start_app(tmp_path, knowledge=ListedKnowledge(HANDBOOK, PRICES)) as server:
        answer = (await server.client.get(path)).json()
        assert answer["code"] == code
        assert message in answer["message"]


async def test_a_server_without_datasets_lists_none(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        assert (await server.client.get("/datasets")).json() == {"code": 0, "data": [], "total_datasets": 0}
        assert (await server.client.get("/datasets", headers={"Authorization": ""})).status_code == 401


@pytest.mark.parametrize("error", [ServiceError("Elasticsearch is down."), SettingsError("The URL is wrong.")])
async def test_a_failing_store_is_reported(tmp_path: Path, error: RagflowLgError) -> None:
    async with start_app(tmp_path, knowledge=ListedKnowledge(error=error)) as server:
        body = (await server.client.get("/datasets")).json()
        assert (body["code"], body["message"]) == (102, f"The datasets cannot be listed: {error}")
