"""All published versions of RAGFlow's SDK, each in its own process, against the server.

`make services` installs the versions that this Python cannot hold under ``.cache/clients``.
"""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.http.ragflow.missing_parts import REASONS
from ragflow_lg.server.http.shared.turn_sessions import NO_ACCESS, NO_ACCESS_BEFORE
from tests.fakes.services import Reply
from tests.harness.loaded_python import python_command
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, canvas

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
FAILING = canvas(
    ("begin", "Begin", {}, ["ListOperations:0"]),
    ("ListOperations:0", "ListOperations", {"query": "sys.query", "operations": "topN", "n": 1}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{ListOperations:0@result}"]}, []),
)
LIST_SHAPE = ("0.22.1", "0.23.1", "0.24.0", "0.25.0")
"""Versions that read agents as a plain list and use the older path."""
CANVAS_SHAPE = ("0.25.1", "0.25.6", "0.26.4", "0.27.3", "1.0.0rc2")


async def run_program(server: Any, version: str, *program: str, compat: str = "") -> str:
    """Run a program with an SDK, and with a key of its shapes in ``KEY``; return its output."""
    path = ROOT / ".cache" / "clients" / version
    if not path.is_dir():
        pytest.skip(f"ragflow-sdk {version} is not installed; run `make services`.")
    key = await server.new_key(compat=compat or ("0.24" if version in LIST_SHAPE else ""))
    process = await asyncio.create_subprocess_exec(
        *python_command(*program),
        cwd=ROOT,
        env={**os.environ, "KEY": key, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"},
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate()
    return answer.decode()


async def call_surface(server: Any, version: str, compat: str = "") -> dict[str, Any]:
    dsls = json.dumps({"echo": ECHO, "form": FORM, "model": MODEL, "failing": FAILING})
    return json.loads(
        await run_program(server, version, "-m", "tests.harness.sdk_surface", server.url, dsls, compat=compat)
    )


ERROR = "**ERROR**: The input of List Operations should be an array."


@pytest.mark.parametrize(
    ("version", "compat"), [*((version, "") for version in (*LIST_SHAPE, *CANVAS_SHAPE)), ("1.0.0rc2", "1.0")]
)
async def test_every_sdk_version_can_use_agents(version: str, compat: str, server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Hell", "o"], repeat=True)]
    answer = await call_surface(server, version, compat)
    assert answer["crud"] == {
        "made": ["Helper", "It helps."],
        "components": ["Message:0", "begin"],
        "changed": ["Aide"],
        "taken": ["Exception", "An agent with the title 'Aide' already exists."],
        "unknown": ["Exception", NO_ACCESS_BEFORE if version in LIST_SHAPE else NO_ACCESS],
        "sessions": [True],
        "left": 0,
        "agents left": 0,
    }
    whole = ["Which size?"] if version in LIST_SHAPE else [""]  # newer ones read the empty content of a pause
    streamed = ["Which size?"] if version < "0.24" else []  # newer versions ignore the frame of a pause
    assert answer["asking"] == {
        "first, whole": ["Hello"],
        "second, whole": ["Hello"],
        "pause, whole": whole,
        "answer, whole": ["Size 42"],
        "error, whole": [ERROR],
        "first, stream": ["Hell", "o"],
        "second, stream": ["Hell", "o"],
        "pause, stream": streamed,
        "answer, stream": ["Size ", "42"],
        "error, stream": ["AttributeError", "'bool' object has no attribute 'get'"] if compat else [ERROR],
    }
    assert answer["missing"] == [
        ["Exception", REASONS["chats"]],
        ["Exception", REASONS["datasets"]],
        ["Exception", f"User '{server.tenant}' lacks permission for dataset 'x'"],
        ["Exception", "You don't own the dataset x."],
    ]
    assert answer["refused"] == ["Exception", "<Unauthorized '401: Unauthorized'>"]


def test_the_docs_name_every_method_of_the_newest_sdk() -> None:
    page = (ROOT / "docs" / "server.md").read_text("utf-8")
    file = ROOT / ".cache" / "clients" / CANVAS_SHAPE[-1] / "ragflow_sdk" / "ragflow.py"
    if not file.exists():
        pytest.skip("No ragflow-sdk is installed; run `make services`.")
    methods = set(re.findall(r"^    def ([a-z]\w+)", file.read_text("utf-8"), re.MULTILINE))
    methods -= {"post", "get", "delete", "put", "patch"}
    assert len(methods) > 15
    assert [name for name in sorted(methods) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(("version", "content"), [("0.25.0", "Which size?"), ("0.27.3", "")])
async def test_the_sample_in_the_docs_works(version: str, content: str, server: AppServer) -> None:
    page = (ROOT / "docs" / "server.md").read_text("utf-8")
    samples: list[str] = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (sample,) = (text for text in samples if "ragflow_sdk" in text)
    answer = await run_program(server, version, "-c", sample.replace("http://127.0.0.1:9380", server.url))
    assert answer == f"asks: {content}\nsays: A parcel, size 42.\n"
