"""Run schemathesis against a new server: every response must match its OpenAPI document.

``python -m tests.campaigns fuzz-api [EXAMPLES]`` sends EXAMPLES requests of each kind to each route, or with
``--requests N`` about as many as make N requests altogether. The server has 1 GB of memory.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.harness.first_key import read_first_key
from tests.harness.memory_limit import limit_memory

ROOT = Path(__file__).parents[2]
TOOL = ROOT / ".cache" / "schemathesis"
"""The folder of ``make services``; its requirements conflict with those of LangGraph's server."""


CANVASES = ("size_form", "customer_service_router", "webhook")
"""Names of examples; requested runs and sessions belong to the first."""
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
REQUEST_LIMIT_S = 20.0
UNKNOWN_SHARE = 0.2
"""Share of requests with unknown ids; the others use existing ids."""


def fuzz(
    folder: Path,
    examples: int,
    limit_s: float,
    phases: str = "examples,coverage,fuzzing",
    *,
    requests: int = 0,
    request_limit_s: float = REQUEST_LIMIT_S,
) -> tuple[int, str]:
    """Start a server in a folder and fuzz it; return the exit code and the output.

    ``requests``, if set, determines the number of examples. Exit code 0: the server never failed, and every response
    matched the document.
    """
    (folder / "ui").mkdir()
    (folder / "ui" / "index.html").write_text("<html></html>")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "RAGFLOW_LG_CHECKPOINTS": "memory://",
        "RAGFLOW_LG_SERVER__LOG_LEVEL": "error",
        "RAGFLOW_LG_SERVER__RAGFLOW_UI": str(folder / "ui"),
    }
    tool = {**os.environ, "PYTHONPATH": str(TOOL)}
    log = folder / "server.log"
    with log.open("wb") as errors:  # an unread pipe would block the server once it is full
        server = subprocess.Popen(
            [sys.executable, "-m", "ragflow_lg", "serve", "--port", "0", "--model", "demo"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=environment,
        )
    assert server.stdout is not None
    limit_memory(server.pid)
    try:
        url = server.stdout.readline().strip()
        key = read_first_key(server.stdout.readline())
        (folder / "schemathesis.toml").write_text(_build_configuration(url, key), "utf-8")
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
        command += ["--header", f"Authorization: Bearer {key}", "--checks", CHECKS, "--phases", phases]
        if requests:
            examples = math.ceil(requests / _count_operations(url))
        command += ["--max-examples", str(examples), "--seed", "1", "--max-failures", "20"]
        command += ["--request-timeout", str(request_limit_s)]
        command += ["--exclude-path-regex", "^/(ready|metrics)?$"]
        process = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, timeout=limit_s, env=tool
        )
        has_ended = server.poll() is not None
    finally:
        server.terminate()
        server.communicate(timeout=60)
    output = re.sub(r"(Bearer )\S+", r"\1***", process.stdout + process.stderr)
    if has_ended:
        output += f"\nThe server ended with {server.returncode}."
    return process.returncode or int(has_ended), f"{output}\n{log.read_text('utf-8', 'replace')}"


def count_requests(output: str) -> int:
    """Return how many requests were sent."""
    return sum(int(count) for count in re.findall(r"(\d+) generated", output))


def _count_operations(url: str) -> int:
    paths = httpx.get(f"{url}/openapi.json", timeout=20).json()["paths"]
    return sum(len(operations) for operations in paths.values())


def _build_configuration(url: str, key: str) -> str:
    """Fill the server, and return a configuration of schemathesis with the existing ids.

    Routes that delete agents get separate agents.
    """
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=20) as client:
        agents = [_create_agent(client, name) for name in CANVASES]
        doomed = [_create_agent(client, "size_form", f"Doomed {number}") for number in range(4)]
        runs, doomed_runs = _start_runs(client, agents[0]), _start_runs(client, doomed[0])
        versions = client.get(f"/native/v1/agents/{agents[0]}/versions").json()["versions"]
        upload = client.post(f"/api/v1/agents/{agents[0]}/upload", files={"file": ("a.txt", b"words")}).json()
    ids = {
        "agent": agents,
        "first": agents[:1],
        "hook": agents[-1:],
        "doomed": doomed[1:],
        "losing": doomed[:1],
        "lost": [run["session_id"] for run in doomed_runs],
        "run": [run["id"] for run in runs],
        "session": [run["session_id"] for run in runs],
        "checkpoint": [run["checkpoint"] for run in runs],
        "version": ["draft", "published", *(version["id"] for version in versions)],
        "file": [upload["data"]["id"]],
        "component": ["begin", "UserFillUp:Size"],
    }
    lines = ["[dictionaries]", *(f"{name} = {{ values = {json.dumps(values)} }}" for name, values in ids.items())]
    lines += ["[parameters]"]
    for name in ("agent", "run", "session", "version", "file", "component"):
        lines.append(_bind(f"path.{name}_id", name))
    lines += [_bind("path.task_id", "session"), _bind("path.message_id", "run"), _bind("path.version", "version")]
    lines += [_bind("path.checkpoint", "checkpoint"), _bind("body.node", "component")]
    lines += [_bind("query.session_id", "session"), _bind("query.run_id", "run")]
    lines += [_bind("body.agent_id", "agent"), _bind("body.session_id", "session"), _bind("body.model", "agent")]
    lines += _bind_agents(
        "include-path-regex = '\\{(run|session|version|component)'\nexclude-method = 'DELETE'", "first"
    )
    lines += _bind_agents("include-path-regex = 'webhook'", "hook")
    lines += _bind_agents("include-name = 'DELETE /api/v1/agents/{agent_id}'", "doomed")
    lines += _bind_agents("include-path-regex = '(sessions|versions)'\ninclude-method = 'DELETE'", "losing")
    lines += [_bind("path.session_id", "lost")]
    return "\n".join(lines)


def _bind_agents(operations: str, values: str) -> list[str]:
    return ["[[operations]]", operations, "[operations.parameters]", _bind("path.agent_id", values)]


def _bind(name: str, values: str) -> str:
    return f'"{name}" = {{ dictionary = "{values}", probability = {1 - UNKNOWN_SHARE} }}'


def _start_runs(client: httpx.Client, agent: str) -> list[Any]:
    return [client.post(f"/native/v1/agents/{agent}/runs", json={"query": "Hi"}).json() for _ in range(9)]


def _create_agent(client: httpx.Client, name: str, title: str = "") -> str:
    dsl = json.loads((ROOT / "examples" / f"{name}.json").read_text("utf-8"))
    if name == "webhook":  # allow anonymous calls
        begin = next(part["obj"] for part in dsl["components"].values() if part["obj"]["component_name"] == "Begin")
        begin["params"] |= {"methods": [], "security": {"auth_type": "none"}, "schema": {}, "content_types": ""}
    return client.post("/api/v1/agents", json={"title": title or name, "dsl": dsl}).json()["data"]["id"]


def main() -> int:
    """Fuzz a server; return schemathesis's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns fuzz-api")
    parser.add_argument("examples", nargs="?", type=int, default=50)
    parser.add_argument("--requests", type=int, default=0)
    arguments = parser.parse_args()
    limit_s = 5.0 if arguments.requests else REQUEST_LIMIT_S
    with tempfile.TemporaryDirectory() as name:
        code, text = fuzz(Path(name), arguments.examples, 7200, requests=arguments.requests, request_limit_s=limit_s)
    sys.stdout.write(f"{text}\n{count_requests(text)} requests\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
