"""All published versions of RAGFlow's SDK that know memories, each in its own process."""

import json
import re
from pathlib import Path

import pytest

from tests.integrations.memories.test_ragflow_memory_routes import start
from tests.server.http.test_sdk_versions import CANVAS_SHAPE, ROOT, run_program

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", ["0.24.0", "0.25.0", *CANVAS_SHAPE])
async def test_every_sdk_version_can_use_memories(version: str, tmp_path: Path) -> None:
    async with start(tmp_path) as server:
        answer = json.loads(await run_program(server, version, "-m", "tests.harness.sdk_memories", server.url))
    assert answer == {
        "made": ["Notes", ["raw"]],
        "changed": "Diary",
        "listed": [1, True],
        "said": "All add to task.",
        "messages": [3, ["s2", "s1"]],
        "recent": ["User: I have a red hat\nAssistant: Fine."],
        "found": "User: I have a red hat\nAssistant: Fine.",
        "active": False,
        "hidden": [],
        "errors": [
            "Message",
            "`memory_size` cannot be changed: a memory keeps 1,000 entries for each user, of any size.",
            "Memory type",
            "There is no embedding model",
        ],
        "left": 0,
    }


async def test_the_sample_in_the_docs_works(tmp_path: Path) -> None:
    page = (ROOT / "ragflow_lg" / "integrations" / "memories" / "memory.md").read_text("utf-8")
    (sample,) = (text for text in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "ragflow_sdk" in text)
    async with start(tmp_path) as server:
        answer = await run_program(server, "0.27.3", "-c", sample.replace("http://127.0.0.1:9380", server.url))
    assert answer == "User: I drink tea\nAssistant: Fine.\n"
