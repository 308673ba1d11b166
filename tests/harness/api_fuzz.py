"""Every route of a fresh server is asked what fits its OpenAPI document, and what does not; its answers have to fit.

``python -m tests.harness.api_fuzz [EXAMPLES]``: how many requests there are of each kind for each route.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

__all__ = ["TOOL", "fuzz"]

ROOT = Path(__file__).parents[2]
TOOL = ROOT / ".cache" / "schemathesis"
"""Where ``make clients`` puts it: what it needs does not fit what LangGraph's server needs."""


CANVASES = ("size_form", "customer_service_router", "webhook")
"""Of the examples; the runs and sessions that are asked for are those of the first."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
LOST = 0.2
"""Of all requests, the share whose ids are nonsense; the others ask for what there is."""


def fuzz(folder: Path, examples: int, limit_s: float, phases: str = "examples,coverage,fuzzing") -> tuple[int, str]:
    """Start a server in a folder and ask it; give the exit code and what was told.

    0: the server never failed, and every answer is one of those that its document promises.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "RAGFLOW_LG_CHECKPOINTS": "memory://",
        "RAGFLOW_LG_SERVER__LOG_LEVEL": "error",
    }
    tool = {**os.environ, "PYTHONPATH": str(TOOL)}
    log = folder / "server.log"
    with log.open("wb") as errors:  # a pipe that nobody reads would stop a server that has much to say
        server = subprocess.Popen(
            [sys.executable, "-m", "ragflow_lg.server", "serve", "--port", "0", "--model", "demo"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=environment,
        )
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        key = server.stdout.readline().strip().rpartition(" ")[2]
        (folder / "schemathesis.toml").write_text(_configuration(url, key), "utf-8")
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
        command += ["--header", f"Authorization: Bearer {key}", "--checks", CHECKS, "--phases", phases]
        command += ["--max-examples", str(examples), "--seed", "1", "--request-timeout", "20", "--max-failures", "20"]
        command += ["--exclude-path-regex", "^/(ready|metrics)$"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, timeout=limit_s, env=tool
        )
    finally:
        server.terminate()
        server.communicate(timeout=60)
    told = re.sub(r"(Bearer )\S+", r"\1***", done.stdout + done.stderr)
    return done.returncode, f"{told}\n{log.read_text('utf-8', 'replace')}"


def _configuration(url: str, key: str) -> str:
    """Fill the server, and give the tool a configuration with the ids of what there is now.

    What deletes agents gets agents of its own, so that the others stay.
    """
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=20) as client:
        agents = [_agent(client, name) for name in CANVASES]
        doomed = [_agent(client, "size_form", f"Doomed {number}") for number in range(4)]
        runs, lost = _runs(client, agents[0]), _runs(client, doomed[0])
        versions = client.get(f"/native/v1/agents/{agents[0]}/versions").json()["versions"]
        upload = client.post(f"/api/v1/agents/{agents[0]}/upload", files={"file": ("a.txt", b"words")}).json()
    known = {
        "agent": agents,
        "first": agents[:1],
        "hook": agents[-1:],
        "doomed": doomed[1:],
        "losing": doomed[:1],
        "lost": [run["session_id"] for run in lost],
        "run": [run["id"] for run in runs],
        "session": [run["session_id"] for run in runs],
        "version": ["draft", "published", *(version["id"] for version in versions)],
        "file": [upload["data"]["id"]],
        "component": ["begin", "UserFillUp:Size"],
    }
    lines = ["[dictionaries]", *(f"{name} = {{ values = {json.dumps(values)} }}" for name, values in known.items())]
    lines += ["[parameters]"]
    for name in ("agent", "run", "session", "version", "file", "component"):
        lines.append(_bound(f"path.{name}_id", name))
    lines += [_bound("path.task_id", "session"), _bound("path.message_id", "run"), _bound("path.version", "version")]
    lines += [_bound("query.session_id", "session"), _bound("query.run_id", "run")]
    lines += [_bound("body.agent_id", "agent"), _bound("body.session_id", "session"), _bound("body.model", "agent")]
    lines += _agents_of("include-path-regex = '\\{(run|session|version|component)'\nexclude-method = 'DELETE'", "first")
    lines += _agents_of("include-path-regex = 'webhook'", "hook")
    lines += _agents_of("include-name = 'DELETE /api/v1/agents/{agent_id}'", "doomed")
    lines += _agents_of("include-path-regex = '(sessions|versions)'\ninclude-method = 'DELETE'", "losing")
    lines += [_bound("path.session_id", "lost")]
    return "\n".join(lines)


def _agents_of(operations: str, values: str) -> list[str]:
    return ["[[operations]]", operations, "[operations.parameters]", _bound("path.agent_id", values)]


def _bound(name: str, values: str) -> str:
    return f'"{name}" = {{ dictionary = "{values}", probability = {1 - LOST} }}'


def _runs(client: httpx.Client, agent: str) -> list[Any]:
    return [client.post(f"/native/v1/agents/{agent}/runs", json={"query": "Hi"}).json() for _ in range(9)]


def _agent(client: httpx.Client, name: str, title: str = "") -> str:
    dsl = json.loads((ROOT / "examples" / f"{name}.json").read_text("utf-8"))
    if name == "webhook":  # let everybody call it
        begin = next(part["obj"] for part in dsl["components"].values() if part["obj"]["component_name"] == "Begin")
        begin["params"] |= {"methods": [], "security": {"auth_type": "none"}, "schema": {}, "content_types": ""}
    return client.post("/api/v1/agents", json={"title": title or name, "dsl": dsl}).json()["data"]["id"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        code, text = fuzz(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else 50, 3600)
    sys.stdout.write(text)
    sys.exit(code)
