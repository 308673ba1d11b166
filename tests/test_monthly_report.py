"""A canvas that reads an uploaded spreadsheet, computes, writes a PDF file, speaks and remembers, over HTTP.

Its server is killed in the middle, and another one goes on.
"""

import asyncio
import json
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from openpyxl import Workbook
from pypdf import PdfReader

from ragflow_lg.integrations.mock_model.rules import Rules
from tests.conftest import FIXTURES
from tests.fakes.mock_llm import MockLLM
from tests.integrations.code.sandboxes import require_bubblewrap
from tests.server.http.app_server import canvas
from tests.server.replicas import Replica, replicas, start_replica
from tests.server.runs.test_failover import read, text

pytestmark = pytest.mark.slow

SUMMARY = "Tea sold best. Thank you, Kim!"
REPORT = """# Sales

{CodeExec:Sums@result.table}

{CodeExec:Sums@attachments}

{LLM:Summary@content}
"""
NAME = '{"semantic": [{"content": "The name of the user is Kim."}]}'


def report_canvas() -> dict[str, Any]:
    """Return the canvas. Its program is a file of the fixtures."""
    program = (FIXTURES / "monthly_report" / "chart.py").read_text("utf-8")
    sums: dict[str, Any] = {
        "lang": "python",
        "script": program,
        "arguments": {"rows": "ExcelProcessor:Read@data"},
        "outputs": {"result": {"type": "Object", "value": {}}, "attachments": {"type": "Array<String>", "value": []}},
    }
    prompt = "Summarise for {Retrieval:Name@formalized_content}:\n{CodeExec:Sums@result.table}\n{sys.query}"
    return canvas(
        (
            "begin",
            "Begin",
            {"mode": "conversational", "inputs": {"sheet": {"name": "Sheet", "type": "file", "optional": False}}},
            ["ExcelProcessor:Read"],
        ),
        ("ExcelProcessor:Read", "ExcelProcessor", {"input_files": ["begin@sheet"]}, ["CodeExec:Sums"]),
        ("CodeExec:Sums", "CodeExec", sums, ["Retrieval:Name"]),
        (
            "Retrieval:Name",
            "Retrieval",
            {"query": "name of the user", "memory_ids": ["people"], "empty_response": "somebody"},
            ["LLM:Summary"],
        ),
        (
            "LLM:Summary",
            "LLM",
            {"llm_id": "m@Mock", "prompts": [{"role": "user", "content": prompt}]},
            ["DocGenerator:Report"],
        ),
        (
            "DocGenerator:Report",
            "DocGenerator",
            {"content": REPORT, "output_format": "pdf", "filename": "sales", "add_timestamp": False},
            ["Message:Answer"],
        ),
        (
            "Message:Answer",
            "Message",
            {
                "content": ["{LLM:Summary@content}{DocGenerator:Report@download}"],
                "auto_play": True,
                "memory_ids": ["people"],
            },
            [],
        ),
    )


def sheet() -> bytes:
    """Return a workbook with the sales of two products."""
    workbook = Workbook()
    rows: Any = workbook.active
    for row in [("product", "amount"), ("tea", 5), ("hats", 3), ("tea", 7)]:
        rows.append(row)
    content = BytesIO()
    workbook.save(content)
    return content.getvalue()


async def ask(client: httpx.AsyncClient, agent_id: str) -> dict[str, Any]:
    """Upload the workbook, and return the body of a request with it."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    uploaded = await client.post(f"/agents/{agent_id}/upload", files={"file": ("sales.xlsx", sheet(), kind)})
    file = uploaded.json()["data"]
    inputs = {"sheet": {"name": "Sheet", "type": "file", "value": [file]}}
    return {"agent_id": agent_id, "query": "I am Kim.", "user_id": "kim", "stream": True, "inputs": inputs}


async def remembered(replica: Replica) -> set[str]:
    """Return what is remembered about the user, once the extraction has ended."""
    url = str(replica.client.base_url).replace("/api/v1", "/native/v1")
    async with asyncio.timeout(20):
        while True:
            answer = await replica.client.get(f"{url}memories/people/entries", params={"user_id": "kim"})
            found = {entry["content"] for entry in answer.json()["entries"]}
            if "The name of the user is Kim." in found:
                return found
            await asyncio.sleep(0.05)


async def test_a_report_survives_the_death_of_its_server(tmp_path: Path, redis_url: str) -> None:
    rules = Rules.model_validate(
        {
            "rules": [
                {"when": {"system": "what to remember"}, "replies": [{"text": NAME}]},
                {"when": {"call": {"to": 1}}, "replies": [{"text": "never sent", "delay_s": 60}]},
                {"replies": [{"text": SUMMARY}]},
            ]
        }
    )
    async with MockLLM(rules=rules) as llm:
        more = f"""
[speech.v]
base_url = "{llm.base_url}"
[memories.people]
[code]
bubblewrap = "{require_bubblewrap()}"
"""
        async with replicas(tmp_path, redis_url, llm.base_url, 1, more=more) as servers:
            first = servers[0]
            created = await first.client.post("/agents", json={"title": "Sales", "dsl": report_canvas()})
            assert created.json()["code"] == 0, created.text
            agent_id = created.json()["data"]["id"]
            body = await ask(first.client, agent_id)
            start = await read(first, body, "", "LLM:Summary")
            servers.append(second := await start_replica(tmp_path / "settings.toml", first.key))
            async with asyncio.timeout(20):
                await llm.received_request.wait()
            first.process.kill()
            async with asyncio.timeout(40):
                rest = await read(second, body, start[-1][0], "")

            frames = [frame for _, frame in start + rest]
            assert text([("", frame) for frame in frames]).startswith(SUMMARY)
            ends = Counter(frame["data"]["component_id"] for frame in frames if frame["event"] == "node_finished")
            assert ends == dict.fromkeys(report_canvas()["components"], 1)
            spoken = [exchange.body["input"] for exchange in llm.requests if exchange.path.endswith("/audio/speech")]
            assert spoken == ["Tea sold best.", "Thank you, Kim!"]
            assert sum("audio_binary" in frame.get("data", {}) for frame in frames) == len(spoken)

            (download,) = frames[-2]["data"]["outputs"]["downloads"]
            answer = await second.client.get(f"/agents/attachments/{download['doc_id']}/download")
            pages = PdfReader(BytesIO(answer.content)).pages
            written = pages[0].extract_text()
            assert all(part in written for part in ("Sales", "tea", "12", "hats", "3", SUMMARY)), written
            assert [len(page.images) for page in pages] == [1]

            url = str(second.client.base_url).replace("/api/v1", "/native/v1")
            files = (await second.client.get(f"{url}files")).json()["files"]
            by_type = Counter(file["mime_type"] for file in files)
            assert (by_type["application/pdf"], by_type["image/png"]) == (1, 1)  # the program was not run again
            made = [file for file in files if file["mime_type"] in ("application/pdf", "image/png")]
            assert all(6.9 < (file["expires_at"] - file["created_at"]) / 86_400 < 7.1 for file in made)

            assert any("I am Kim." in content for content in await remembered(second))
            again = await read(second, await ask(second.client, agent_id), "", "")
            assert again[-1][1]["event"] == "DONE"
            prompts = [
                json.dumps(exchange.body) for exchange in llm.requests if "Summarise for" in json.dumps(exchange.body)
            ]
            assert "Summarise for somebody" in prompts[0]
            assert "The name of the user is Kim." in prompts[-1]
