from ragflow_lg.adapters.ragflow_api.remote_datasets import list_chunks, list_datasets, list_documents
from tests.fakes.recorded_ragflow import RecordedRagflow
from tests.ragflow_lg.adapters.ragflow_api.opened_api import open_api

COLOURS, DOCUMENT = "d1" * 16, "dc" * 16


async def test_datasets_documents_and_chunks(ragflow: RecordedRagflow) -> None:
    api = open_api(ragflow)
    (dataset,) = await list_datasets(api)
    assert (dataset.name, dataset.embedding_model, dataset.chunks) == ("colours", "BAAI/bge-m3@SILICONFLOW", 2)
    (document,) = [each async for each in list_documents(api, COLOURS)]
    assert (document.name, document.metadata) == ("colours.md", {"year": "2026"})
    chunks = [each async for each in list_chunks(api, COLOURS, DOCUMENT)]
    assert [(chunk.content, chunk.positions) for chunk in chunks] == [
        ("Blue is calm.", [[1, 0, 1, 2, 3]]),
        ("Red is warm.", []),
    ]


async def test_vectors_are_read_only_if_they_are_numbers(ragflow: RecordedRagflow) -> None:
    rows = [
        {"id": "1", "content": "a", "q_2_vec": [0.5, 1]},
        {"id": "2", "content": "b", "q_2_vec": [0.5, "x"]},
        {"id": "3", "content": "c", "q_2_vec": [True, 1e99]},
        {"id": "4", "content": "off", "available": False},
        {"id": "5", "content": " "},
    ]
    ragflow.set(f"/api/v1/datasets/{COLOURS}/documents/{DOCUMENT}/chunks", {"chunks": rows})
    chunks = [each async for each in list_chunks(open_api(ragflow), COLOURS, DOCUMENT)]
    assert [chunk.vector for chunk in chunks] == [[0.5, 1.0], [], []]
