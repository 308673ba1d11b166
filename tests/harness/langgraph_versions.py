"""Play a few tests with the oldest and the newest LangGraph and langchain-core that ``pyproject.toml`` allows.

``python -m tests.harness.langgraph_versions`` installs both below ``.cache/langgraph``, before the project's own
environment on the path: the rest of the tests' packages is the same.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHOSEN = ("langgraph", "langchain-core")
TESTS = (
    "tests/ragflow_lg/base/test_langgraph_internals.py",
    "tests/test_samples.py",
    "tests/ragflow_lg/runs/test_runner.py",
    "tests/ragflow_lg/runs/test_pauses.py",
    "tests/ragflow_lg/runs/test_branching.py",
    "tests/ragflow_lg/components/test_loop.py",
    "tests/dsl_compiler/langgraph_app",
)
CRASHES = ("tests.harness.crash", "tests/fixtures/crash/form.json", "tests/fixtures/crash/loop.json", "--kills", "10")


def requirements(*, oldest: bool) -> list[str]:
    """Return what pip is asked for: what the project requires of both families, with the oldest chosen versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["redis"]]
    wanted = [line for line in listed if line.startswith("lang")]
    if not oldest:
        return wanted
    return [re.sub(r">=([\d.]+).*", r"==\1", line) if re.split("[>=]", line)[0] in CHOSEN else line for line in wanted]


def install(folder: Path, *, oldest: bool) -> None:
    """Install the versions into a folder of their own; other packages keep the versions of ``constraints.txt``."""
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    others = folder / "constraints.txt"
    others.write_text("\n".join(line for line in pins if not line.startswith(("lang", "    "))), "utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", folder, "-c", others, *requirements(oldest=oldest)], check=True)


def play(folder: Path) -> int:
    """Run the tests and the crashes with the packages of a folder. Return whether any failed."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    commands = (
        ["-c", "from importlib.metadata import version as v; print(v('langgraph'), v('langchain-core'))"],
        ["-m", "pytest", "-q", "-p", "no:randomly", *TESTS],
        ["-m", *CRASHES],
    )
    return any(subprocess.run([sys.executable, *c], env=environment, cwd=ROOT).returncode for c in commands)


def main() -> int:
    """Return 1 if anything fails with either."""
    failed = False
    for name in ("oldest", "newest"):
        folder = ROOT / ".cache" / "langgraph" / name
        install(folder, oldest=name == "oldest")
        failed = play(folder) or failed
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
