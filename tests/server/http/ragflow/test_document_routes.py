from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.knowledge.embedded_knowledge import EmbeddedKnowledge
from ragflow_lg.adapters.knowledge.ragflow_knowledge import RagflowApiKnowledge
from ragflow_lg.services.knowledge import DatasetSearch
from tests.fakes.embedded import OneEmbedder, fill
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.server.http.app_server import AppServer, start_app

DOCUMENTS = {"blue.md": ["Blue is calm.", "The sea is blue."], "red.md": ["Red is warm."]}


def colours(tmp_path: Path) -> EmbeddedKnowledge:
    knowledge = EmbeddedKnowledge(tmp_path / "knowledge.db", OneEmbedder())
    fill(knowledge, "colours", DOCUMENTS)
    return knowledge


async def dataset_id(server: AppServer) -> str:
    return (await server.client.get("/datasets")).json()["data"][0]["id"]


async def test_documents_and_chunks_are_listed_page_by_page(tmp_path: Path) -> None:
    async with start_app(tmp_path, knowledge=colours(tmp_path)) as server:
        path = f"/datasets/{await dataset_id(server)}/documents"
        page = (await server.client.get(path, params={"page": "2", "page_size": "1"})).json()["data"]
        assert page["total"] == 2
        (red,) = page["docs"]
        assert (red["name"], red["chunk_count"], red["meta_fields"]) == ("red.md", 1, {"kind": ["a", "b"]})
        blue = (await server.client.get(path)).json()["data"]["docs"][0]["id"]
        chunks = (await server.client.get(f"{path}/{blue}/chunks", params={"vectors": "true"})).json()["data"]
        assert (chunks["total"], [chunk["content"] for chunk in chunks["chunks"]]) == (2, DOCUMENTS["blue.md"])
        assert [len(chunk["q_384_vec"]) for chunk in chunks["chunks"]] == [384, 384]
        second = (await server.client.get(f"{path}/{blue}/chunks?page=2&page_size=1")).json()["data"]["chunks"]
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
        assert there.documents == here.documents
        assert there.total == here.total
        none = DatasetSearch("calm", datasets, document_ids=("unknown",))
        assert (await link.search(none)).chunks == ()
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
        sent = {**body, **({"dataset_ids": ids} if ids else {})}
        answer = (await server.client.post("/retrieval", json=sent)).json()
        assert answer["code"] == code
        assert message in answer["message"]
        empty = (await server.client.post("/retrieval", json={"question": " ", "dataset_ids": [known]})).json()
        assert empty["data"] == {"chunks": [], "doc_aggs": [], "total": 0}


async def test_unknown_documents_and_other_stores_are_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path, knowledge=colours(tmp_path)) as server:
        path = f"/datasets/{await dataset_id(server)}/documents"
        assert (await server.client.get(f"{path}/none/chunks")).json()["message"] == "You don't own the document none."
        assert (await server.client.get("/datasets/none/documents")).json()["code"] == 102
    async with start_app(tmp_path, knowledge=ListedKnowledge()) as server:
        assert (await server.client.get("/datasets/none/documents")).json()["code"] == 102
