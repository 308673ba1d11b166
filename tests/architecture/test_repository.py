"""Rules about the files around the code."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.sources import ROOT, imported_modules, sources
from tests.harness.pages import DOCS, PAGES
from tests.harness.rows import each_row

pytestmark = pytest.mark.slow

MAX_BASE_DISTRIBUTIONS = 60
MAX_BASE_MB = 200

ADDRESSES = re.compile(
    "|".join(
        (
            # Written apart, so that this file keeps the rule as well.
            r"/(?:work|root)" + r"/\w",
            r"/(?:home|Users)" + r"/\w",
            r"pypi" + r"\.org",
            r"pythonhosted" + r"\.org",
            r"registry\." + r"(?:npmjs|yarnpkg)",
        )
    )
)


def project() -> dict[str, Any]:
    """Read the project's own description."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def requirements(*extras: str) -> set[str]:
    """Return the names of the distributions that the project and some of its extras need, extras of extras included."""
    table = project()["project"]
    lines = [*table["dependencies"], *(line for extra in extras for line in table["optional-dependencies"][extra])]
    names = {re.split(r"[<>=\[; ]", line)[0] for line in lines}
    for line in lines:
        if line.startswith("ragflow-lg["):
            names |= requirements(*line.partition("[")[2].partition("]")[0].split(","))
    return names - {"ragflow-lg"}


def base_distributions() -> list[Distribution]:
    """Return what an installation without extras consists of, apart from the project: found in this environment."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(line), "") for line in project()["project"]["dependencies"]]
    seen = set[tuple[str, str]]()
    while waiting:
        needed, extra = waiting.pop()
        if needed.marker and not needed.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(needed.name)
        found[name] = distribution(needed.name)
        for wanted in ("", *needed.extras):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += [(Requirement(line), wanted) for line in found[name].requires or ()]
    return list(found.values())


def test_an_installation_without_extras_is_small() -> None:
    installed = base_distributions()
    names = sorted(one.name for one in installed)
    assert len(names) + 1 <= MAX_BASE_DISTRIBUTIONS, names
    files = {Path(str(file.locate())) for one in installed for file in one.files or () if file.suffix != ".pyc"}
    assert sum(file.stat().st_size for file in files if file.is_file()) < MAX_BASE_MB * 10**6


def tracked_files() -> list[Path]:
    """Return the files of the repository; those that git would take, where there is git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("The tree is not a git repository.")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_machine_or_a_package_registry() -> None:
    found: list[str] = []
    for path in tracked_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in ADDRESSES.finditer(text)]
    assert found == []


TO_WRITE = {
    ("CONTRIBUTING.md", "ragflow_lg/components/greeter.py"),
    ("CONTRIBUTING.md", "tests/ragflow_lg/components/test_greeter.py"),
    ("CONTRIBUTING.md", "ragflow_lg/components/echo.py"),
    ("CONTRIBUTING.md", "tests/ragflow_lg/components/test_echo.py"),
}
"""Files of an example, which a reader writes."""

OWN_FILES = {"my_canvas.json", "agents/customer_service.json"}
"""What a reader has."""


@each_row("page", ["examples/README.md", *PAGES])
def test_the_pages_name_canvases_that_are_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = re.findall(r"ragflow-lg (?:run|check|canvas draw) ([\w/.]+\.json)", text)
    named += re.findall(r"\]\(\.\./([\w/.]+\.json)\)", text)
    assert [name for name in named if name not in OWN_FILES and not (ROOT / name).is_file()] == []


@each_row("page", ["CONTRIBUTING.md", "examples/README.md", *PAGES])
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", (ROOT / page).read_text("utf-8"))
    assert [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()] == []


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\((?!https?://|#)([^)#\s]+\.md)", page.read_text("utf-8"))
        waiting += [target for link in links if (target := (page.parent / link).resolve()) not in reached]
    assert [page.name for page in DOCS if page not in reached] == []


def test_files_that_the_pages_name_exist() -> None:
    pages = [ROOT / "CONTRIBUTING.md", *DOCS]
    paths = {
        (page.name, path)
        for page in pages
        for path in re.findall(
            r"`((?:ragflow_lg|dsl_compiler|checkpoints|server|tests|benchmarks)/[\w/.]*)`", page.read_text("utf-8")
        )
    }
    assert sorted(named for named in paths if not (ROOT / named[1]).exists() and named not in TO_WRITE) == []


def test_no_file_is_large() -> None:
    large = {path.name for path in tracked_files() if path.stat().st_size > 1_000_000}
    assert large == {"mermaid.js"}  # the smallest library that draws the usual kinds of diagrams


def test_the_changelog_describes_this_version() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == project()["project"]["version"]


def test_every_dependency_is_pinned_once_and_without_an_address() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not re.match(r"[a-z0-9-]+==[\w.]+( ; |$)", line)] == []
    pinned = {line.split("==")[0] for line in lines}
    assert requirements(*project()["project"]["optional-dependencies"]) - pinned == set()


def test_dependencies_are_what_is_imported() -> None:
    imported = {name.split(".")[0] for source in sources() for name in imported_modules(source.tree)}
    outside = imported - set(sys.stdlib_module_names) - {"ragflow_lg"}
    installed = {name: {_plain(d) for d in names} for name, names in packages_distributions().items()}
    declared = requirements(
        "a2a", "all", "anthropic", "azure", "bedrock", "browser", "google", "local-embeddings", "ollama"
    )
    assert {name for name in outside if not installed.get(name, set()) & declared} == set(), "imported, not declared"
    needed = {distribution for name in outside for distribution in installed.get(name, ())}
    drivers = {"uvloop"} | requirements("mysql", "postgresql") - requirements()  # imported by uvicorn and SQLAlchemy
    clients = {"langchain-anthropic", "langchain-google-genai", "langchain-ollama"}  # LangChain, too
    others = {"safetensors", "wordllama", "sse-starlette"}  # found by their names, and imported by the SDK of A2A
    assert declared - needed - drivers - clients - others == set(), "declared, not imported"


def _plain(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
