"""Spreadsheets in a running server: an upload is read, and a new file is offered for download."""

import json
from pathlib import Path
from typing import Any

from tests.ragflow_lg.base.spreadsheets.books import book, cells
from tests.server.http.app_server import AppServer, canvas, start_app

READS = canvas(
    ("begin", "Begin", {"inputs": {"table": {"name": "Table", "type": "file"}}}, ["ExcelProcessor:0"]),
    ("ExcelProcessor:0", "ExcelProcessor", {"input_files": ["begin@table", "sys.files"]}, ["ExcelProcessor:1"]),
    (
        "ExcelProcessor:1",
        "ExcelProcessor",
        {"operation": "output", "transform_data": "ExcelProcessor:0@data", "output_filename": "copy"},
        ["ExcelProcessor:2"],
    ),
    ("ExcelProcessor:2", "ExcelProcessor", {"input_files": ["ExcelProcessor:1@attachment"]}, ["Message:0"]),
    (
        "Message:0",
        "Message",
        {"content": ["{ExcelProcessor:0@summary}\n{ExcelProcessor:1@download}{ExcelProcessor:2@summary}"]},
        [],
    ),
)


async def upload(server: AppServer, agent_id: str, name: str, content: bytes) -> Any:
    response = await server.client.post(f"/agents/{agent_id}/upload", files={"file": (name, content)})
    return response.json()["data"]


async def test_uploads_are_read_and_new_files_are_downloaded(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(READS)
        table = await upload(server, agent_id, "people.xlsx", book({"P": [["name"], ["@Ann"]]}))
        more = await upload(server, agent_id, "more.csv", b"n\n1\n2\n")
        result = await server.ask(agent_id, inputs={"table": {"type": "file", "value": [table]}}, files=[more])
        answer = result["data"]["data"]
        assert answer["content"].splitlines() == [
            "**people.xlsx**: 1 rows, 1 columns (name)",
            "**more.csv**: 2 rows, 1 columns (n)",
            "**copy.xlsx_people.xlsx**: 1 rows, 1 columns (name)",
            "**copy.xlsx_more.csv**: 2 rows, 1 columns (n)",
        ], json.dumps(result)[:2000]
        (info,) = answer["outputs"]["downloads"]
        assert info["filename"] == "copy.xlsx"
        for url in (server.url + info["url"], f"/agents/download?id={info['doc_id']}&created_by=x"):
            response = await server.client.get(url)
            assert cells(response.content)["people.xlsx"] == [[("name", "s")], [("@Ann", "s")]], url
