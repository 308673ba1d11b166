"""Play tests with other versions, and write down what was tried.

``python -m tests.harness.versions [--record] NAME …``: a NAME is ``pinned``, ``oldest`` (LangGraph and langchain-core),
``newest`` (all packages that ``pyproject.toml`` allows), the path of another Python, or one of `OTHERS`. Packages are
installed below ``.cache/versions``, before the project's own environment on the path. ``--record`` writes the results
to ``docs/versions.json``, and the page from it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import redis

from tests.harness.database_servers import find
from tests.harness.elasticsearch_node import FOLDER
from tests.harness.redis_server import redis_server, valkey_server

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "versions.json"
PAGE = DATA.with_suffix(".md")
FAMILIES = ("langgraph", "langchain-core")
PACKAGES = ("langgraph", "langchain-core", "mcp", "fastapi", "elasticsearch", "redis")
"""The packages whose versions are written down."""
TOOLS = ("hypothesis", "langgraph-checkpoint-", "pytest", "redis-stack", "trustme")
"""The beginnings of what the tests need beside the extra ``all``."""
TESTS = (
    "tests/ragflow_lg/base/test_langgraph_internals.py",
    "tests/test_samples.py",
    "tests/ragflow_lg/runs/test_runner.py",
    "tests/ragflow_lg/runs/test_pauses.py",
    "tests/ragflow_lg/runs/test_branching.py",
    "tests/ragflow_lg/components/test_loop.py",
    "tests/dsl_compiler/langgraph_app",
    "tests/integrations/elasticsearch",
    "tests/integrations/mcp",
    "tests/server/http/mcp",
)
CRASHES = ("tests.harness.crash", "tests/fixtures/crash/form.json", "tests/fixtures/crash/loop.json", "--kills", "10")
TOLD = f"""import json, platform
from importlib.metadata import version
print(json.dumps({{"Python": platform.python_version(), **{{name: version(name) for name in {PACKAGES!r}}}}}))"""
PLAYS = {
    "oldest": "the oldest langgraph and langchain-core",
    "newest": "the newest packages that `pyproject.toml` allows",
    "servers": "the tests of this server or client",
}
"""What a version was played with; any other name stands for the packages of ``constraints.txt``."""
TEXT = """# Versions that were tried

`python -m tests.campaigns versions --record NAME …` plays tests with a version and writes its row. There is no row that
was not played. `pyproject.toml` says which versions are allowed.

- RAGFlow itself is not started: its engine's recorded answers are compared ([fidelity](fidelity.md)).
- `elasticsearch` is Elasticsearch's client. Version 9 is not allowed: Elasticsearch 8, which RAGFlow starts, answers it
  with status 400, and `langchain-elasticsearch` requires 8.
- `redis` is Redis' client.
- Python 3.14 is allowed, because all dependencies are published for it. It was not tried.

| what | version | played with | result | on |
| --- | --- | --- | --- | --- |
"""


def _redis_version() -> str:
    with redis_server() as url:
        return _info(url)["redis_version"]


def _valkey_version() -> str:
    with valkey_server() as url:
        return _info(url)["valkey_version"]


def _info(url: str) -> dict[str, Any]:
    client: Any = redis.Redis
    with client.from_url(url) as opened:
        return opened.info("server")


def _postgresql_version() -> str:
    told = subprocess.run([find("postgresql")[1], "--version"], capture_output=True, text=True, check=True)
    return re.findall(r"[\d.]+", told.stdout)[0]


def _elasticsearch_version() -> str:
    return re.findall(r"<elasticsearch.version>(.*?)<", (FOLDER / "pom.xml").read_text("utf-8"))[0]


OTHERS: dict[str, tuple[Callable[[], str], str]] = {
    "RAGFlow": (lambda: "0.27.0, commit b1b8cd6", "tests/test_conformance.py"),
    "Redis": (_redis_version, "tests/checkpoints -k redis"),
    "Valkey": (_valkey_version, "tests/checkpoints -k valkey"),
    "PostgreSQL": (_postgresql_version, "tests/checkpoints -k postgresql"),
    "Elasticsearch": (_elasticsearch_version, "-m elasticsearch tests/integrations/elasticsearch"),
    **{
        f"ragflow-sdk {path.name}": (
            lambda version=path.name: version,
            f"tests/server/http/test_sdk_versions.py -k {path.name}",
        )
        for path in sorted((ROOT / ".cache" / "clients").glob("*"))
    },
}
"""The version of a server, a client or a recording, and what pytest gets."""


def requirements(name: str) -> list[str]:
    """Return what pip is asked for, for an environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    named = re.findall(r"[\w-]+", ",".join(line.partition("[")[2] for line in extras["all"]))
    listed = [*project["dependencies"], *(line for extra in named for line in extras[extra])]
    if name == "oldest":
        wanted = [line for line in [*project["dependencies"], *extras["redis"]] if line.startswith("lang")]
        return [
            re.sub(r">=([\d.]+).*", r"==\1", line) if re.split("[>=]", line)[0] in FAMILIES else line for line in wanted
        ]
    return listed if name == "newest" else [*listed, *(line for line in extras["dev"] if line.startswith(TOOLS))]


def install(folder: Path, name: str) -> str:
    """Install an environment into a folder of its own; what is not chosen has the versions of ``constraints.txt``.

    Return its Python. Another one gets a virtual environment, so that its processes find the packages as well.
    """
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    others = folder / "constraints.txt"
    kept = {"oldest": [line for line in pins if not line.startswith("lang")], "newest": []}.get(name, pins)
    others.write_text("\n".join(kept), "utf-8")
    python, target = sys.executable, ["--target", folder]
    if "python" in name:
        subprocess.run([name, "-m", "venv", folder], check=True)
        python, target = str(folder / "bin" / "python"), []
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *target]
    subprocess.run([*pip, "-c", others, *requirements(name)], check=True)
    return python


def play(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run tests, and return how many passed and failed."""
    options = ["-q", "-p", "no:randomly", "-n", "2", "--dist", "worksteal"]
    done = subprocess.run([*command, *options], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    sys.stdout.write(done.stdout[-4000:])
    counts = re.findall(r"(\d+) (passed|failed|error)", done.stdout.strip().rpartition("\n")[2])
    return ", ".join(f"{number} {how}" for number, how in counts) or "failed"


def play_packages(name: str) -> Iterator[tuple[str, str, str, str]]:
    """Play the list of tests in an environment. Yield its rows."""
    folder = ROOT / ".cache" / "versions" / Path(name).name
    python = sys.executable if name == "pinned" else install(folder, name)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    told = subprocess.run([python, "-c", TOLD], env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    result = play([python, "-m", "pytest", "-m", "not slow and not elasticsearch", *TESTS], environment)
    if name in ("oldest", "newest") and subprocess.run([python, "-m", *CRASHES], env=environment, cwd=ROOT).returncode:
        result += ", crashes failed"
    versions = json.loads(told)
    for what in versions if name in ("pinned", "newest") else ("Python",) if "python" in name else FAMILIES:
        yield what, versions[what], name if name in PLAYS else "pinned", result


def play_other(name: str) -> Iterator[tuple[str, str, str, str]]:
    """Play the tests of a server, a client or a recording. Yield its row."""
    version, tests = OTHERS[name]
    pytest = [sys.executable, "-m", "pytest", *tests.split()]
    start = [sys.executable, "-m", "tests.harness.elasticsearch_node"] if name == "Elasticsearch" else []
    yield name.split()[0], version(), "servers", play([*start, *pytest], os.environ)


def record(rows: Sequence[tuple[str, str, str, str]]) -> None:
    """Write rows into the file, in the place of older ones, and the page."""
    known = {tuple(row[:3]): row for row in json.loads(DATA.read_text("utf-8"))} if DATA.exists() else {}
    known |= {row[:3]: [*row, date.today().isoformat()] for row in rows}
    lines = ",\n".join(json.dumps(row) for row in sorted(known.values()))
    DATA.write_text(f"[\n{lines}\n]\n", "utf-8")
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """Return the page of the file."""
    rows = json.loads(DATA.read_text("utf-8"))
    usual = "the packages of `constraints.txt`"
    return TEXT + "".join(f"| {a} | {b} | {PLAYS.get(how, usual)} | {c} | {day} |\n" for a, b, how, c, day in rows)


def main(*names: str) -> int:
    """Return 1 if anything fails."""
    rows: list[tuple[str, str, str, str]] = []
    for name in names:
        if name != "--record":
            rows += (play_other if name in OTHERS else play_packages)(name)
            if "--record" in names:
                record(rows)
    for row in rows:
        print(*row, sep=" | ")
    return int(any("failed" in row[3] or "error" in row[3] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(*(sys.argv[1:] or ("oldest", "newest"))))
