from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.integrations.knowledge.embedded_knowledge import EmbeddedKnowledge
from ragflow_lg.integrations.knowledge.ragflow_knowledge import RagflowApiKnowledge
from ragflow_lg.services.knowledge import Dataset, DatasetEntry, DatasetSearch, Knowledge
from tests.fakes.embedded import OneEmbedder, fill
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.server.http.app_server import AppServer, start_app

HANDBOOK = DatasetEntry(Dataset("0f3c", "Handbook", "bge-m3@SILICONFLOW"), 2, 31)
PRICES = DatasetEntry(Dataset("9a7e", "Prices"), 1, 4)


async def test_datasets_are_listed_with_their_sizes(tmp_path: Path) -> None:
    async with start_app(tmp_path, knowledge=ListedKnowledge(PRICES, HANDBOOK)) as server:
        body = await server.get("/datasets")
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
            rows = (await server.get(f"/datasets?{query}"))["data"]
            assert [row["id"] for row in rows] == ids, query
        assert (await server.get("/datasets?type=filter"))["data"]["filter"]["owner"][0]["count"] == 2
        metadata = (await server.get("/datasets/metadata/flattened?dataset_ids=0f3c,0f3c"))["data"]
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
        answer = await server.get(path)
        assert answer["code"] == code
        assert message in answer["message"]


async def test_a_server_without_datasets_lists_none(server: AppServer) -> None:
    assert (await server.get("/datasets")) == {"code": 0, "data": [], "total_datasets": 0}
    assert (await server.client.get("/datasets", headers={"Authorization": ""})).status_code == 401


@pytest.mark.parametrize("error", [ServiceError("Elasticsearch is down."), SettingsError("The URL is wrong.")])
async def test_a_failing_store_is_reported(tmp_path: Path, error: RagflowLgError) -> None:
    async with start_app(tmp_path, knowledge=ListedKnowledge(error=error)) as server:
        body = await server.get("/datasets")
        assert (body["code"], body["message"]) == (102, f"The datasets cannot be listed: {error}")


async def test_a_server_whose_datasets_are_not_installed_says_so(
    server: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    unopened: Any = server.app_state.services.unopened
    monkeypatch.setitem(unopened, Knowledge, SettingsError("Install it."))
    body = {"question": "x", "dataset_ids": ["a"]}
    for answer in (await server.get("/datasets"), await server.post("/retrieval", body)):
        assert (answer["code"], answer["message"]) == (102, "The datasets cannot be listed: Install it.")


DOCUMENTS = {"blue.md": ["Blue is calm.", "The sea is blue."], "red.md": ["Red is warm."]}


def colours(tmp_path: Path) -> EmbeddedKnowledge:
    knowledge = EmbeddedKnowledge(tmp_path / "knowledge.db", OneEmbedder())
    fill(knowledge, "colours", DOCUMENTS)
    return knowledge


async def dataset_id(server: AppServer) -> str:
    return (await server.get("/datasets"))["data"][0]["id"]


async def test_documents_and_chunks_are_listed_page_by_page(tmp_path: Path) -> None:
    async with start_app(tmp_path, knowledge=colours(tmp_path)) as server:
        path = f"/datasets/{await dataset_id(server)}/documents"
        page = (await server.get(path, params={"page": "2", "page_size": "1"}))["data"]
        assert page["total"] == 2
        (red,) = page["docs"]
        assert (red["name"], red["chunk_count"], red["meta_fields"]) == ("red.md", 1, {"kind": ["a", "b"]})
        blue = (await server.get(path))["data"]["docs"][0]["id"]
        chunks = (await server.get(f"{path}/{blue}/chunks", params={"vectors": "true"}))["data"]
        assert (chunks["total"], [chunk["content"] for chunk in chunks["chunks"]]) == (2, DOCUMENTS["blue.md"])
        assert [len(chunk["q_384_vec"]) for chunk in chunks["chunks"]] == [384, 384]
        second = (await server.get(f"{path}/{blue}/chunks?page=2&page_size=1"))["data"]["chunks"]
        assert [(chunk["content"], "q_384_vec" in chunk) for chunk in second] == [("The sea is blue.", False)]


async def test_a_link_to_this_server_finds_the_same_chunks(tmp_path: Path) -> None:
    knowledge = colours(tmp_path)
    async with start_app(tmp_path, knowledge=knowledge) as server:
        http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
        link = RagflowApiKnowledge(server.url, server.key, http)
        datasets = tuple((await link.datasets(["colours"])).values())
        search = DatasetSearch("calm blue", datasets, similarity_threshold=0.0)
        there, here = await link.search(search), await knowledge.search(search)
        assert [chunk["content_with_weight"] for chunk in there.chunks] == [
            chunk["content_with_weight"] for chunk in here.chunks
        ]
        assert (there.documents, there.total) == (here.documents, here.total)
        assert (await link.search(DatasetSearch("calm", datasets, document_ids=("unknown",)))).chunks == ()
        await http.aclose()


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"question": "x"}, 101, "`dataset_ids` is required"),
        ({"question": "x", "dataset_ids": ["none"]}, 102, "You don't own the dataset none"),
        ({"question": "x", "dataset_ids": ["KNOWN"], "page_size": 101}, 101, "`page_size` must be a number"),
        ({"question": "x", "dataset_ids": ["KNOWN"], "top_k": True}, 101, "`top_k` must be a number"),
        ({"question": "x", "dataset_ids": ["KNOWN"], "rerank_id": "gone"}, 102, "cannot be searched"),
    ],
)
async def test_wrong_searches_are_refused(tmp_path: Path, body: dict[str, Any], code: int, message: str) -> None:
    async with start_app(tmp_path, knowledge=colours(tmp_path)) as server:
        known = await dataset_id(server)
        ids = [known if id_ == "KNOWN" else id_ for id_ in body.get("dataset_ids", [])]
        answer = await server.post("/retrieval", {**body, **({"dataset_ids": ids} if ids else {})})
        assert answer["code"] == code
        assert message in answer["message"]
        empty = await server.post("/retrieval", {"question": " ", "dataset_ids": [known]})
        assert empty["data"] == {"chunks": [], "doc_aggs": [], "total": 0}


async def test_the_paths_of_1_find_the_same_chunks(tmp_path: Path) -> None:
    async with start_app(tmp_path, knowledge=colours(tmp_path)) as server:
        known = await dataset_id(server)
        asked = {"question": "calm blue", "similarity_threshold": 0}
        older = (await server.post("/retrieval", {**asked, "dataset_ids": [known]}))["data"]
        newer = (await server.post("/datasets/search", {**asked, "dataset_ids": [known]}))["data"]
        assert (newer["doc_aggs"], newer["total"], newer["labels"]) == (older["doc_aggs"], older["total"], None)
        ids = [chunk["id"] for chunk in older["chunks"]]
        assert [chunk["chunk_id"] for chunk in newer["chunks"]] == ids
        second = (await server.post(f"/datasets/{known}/search", {**asked, "size": 1, "page": 2}))["data"]
        assert [chunk["chunk_id"] for chunk in second["chunks"]] == ids[1:2]
        document = older["chunks"][0]["document_id"]
        only = (await server.post(f"/datasets/{known}/search", {**asked, "doc_ids": [document]}))["data"]
        assert {chunk["doc_id"] for chunk in only["chunks"]} == {document}
        for wrong in ({"page": 11, "size": 10}, {"meta_data_filter": {"method": "auto"}}, {"size": 0}):
            assert (await server.post(f"/datasets/{known}/search", {**asked, **wrong}))["code"] == 101, wrong


async def test_unknown_documents_and_other_stores_are_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path, knowledge=colours(tmp_path)) as server:
        path = f"/datasets/{await dataset_id(server)}/documents"
        assert (await server.get(f"{path}/none/chunks"))["message"] == "You don't own the document none."
        assert (await server.get("/datasets/none/documents"))["code"] == 102
    async with start_app(tmp_path, knowledge=ListedKnowledge()) as server:
        assert (await server.get("/datasets/none/documents"))["code"] == 102
