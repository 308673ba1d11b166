"""Every route of a fresh server is asked nonsense that fits its OpenAPI document, and nonsense that does not.

``python -m tests.harness.api_fuzz [EXAMPLES]``: how many requests there are of each kind for each route.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["TOOL", "fuzz"]

ROOT = Path(__file__).parents[2]
TOOL = ROOT / ".cache" / "schemathesis"
"""Where ``make clients`` puts it: what it needs does not fit what LangGraph's server needs."""


def fuzz(folder: Path, examples: int, limit_s: float) -> tuple[int, str]:
    """Start a server in a folder and ask it; give the exit code and what was told. 0: the server never failed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "RAGFLOW_LG_CHECKPOINTS": "memory://",
    }
    tool = {**os.environ, "PYTHONPATH": str(TOOL)}
    server = subprocess.Popen(
        [sys.executable, "-m", "server", "serve", "--port", "0", "--model", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    )
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        key = server.stdout.readline().strip().rpartition(" ")[2]
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
        command += ["--header", f"Authorization: Bearer {key}", "--checks", "not_a_server_error"]
        command += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(examples), "--seed", "1"]
        command += ["--exclude-path-regex", "^/ready$", "--request-timeout", "20", "--max-failures", "5"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, timeout=limit_s, env=tool
        )
    finally:
        server.terminate()
        _, errors = server.communicate(timeout=60)
    told = re.sub(r"(Bearer )\S+", r"\1***", done.stdout + done.stderr)
    return done.returncode, f"{told}\n{errors}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        code, text = fuzz(Path(name), int(sys.argv[1]) if len(sys.argv) > 1 else 50, 3600)
    sys.stdout.write(text)
    sys.exit(code)
