"""The page of the components has a row for each, with a page that describes it."""

import json
import re
from pathlib import Path
from typing import Any

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler.placeholder import RENAMED
from ragflow_lg.server.assembly.library import check_file
from ragflow_lg.server.settings import Settings
from tests.harness.rows import each_row

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "components.md").read_text("utf-8")
DESCRIPTIONS = PAGE.partition("\n## Loop and Iteration")[2]
EXAMPLES = PAGE.partition("\n## Examples")[2]
SNIPPETS = [json.loads(text) for text in re.findall(r"(?s)```json\n(.*?)```", EXAMPLES)]
ROWS = {cells[0]: cells[-1] for row in re.findall(r"(?m)^\| (.+) \|$", PAGE) if (cells := row.split(" | "))}
RAGFLOW = re.findall(
    r"\w+",
    """
    Agent AkShare ArXiv BGPT Begin Browser Categorize CodeExec Crawler DataOperations DeepL DocGenerator
    DocsGenerator DuckDuckGo Email ExcelProcessor ExeSQL ExitLoop GitHub Google GoogleScholar Invoke Iteration
    IterationItem Jin10 KeenableSearch LLM ListOperations Loop LoopItem Message PDFGenerator Parallel PubMed QWeather
    QueritContents QueritSearch Retrieval SearXNG StringTransform Switch TavilyExtract TavilySearch TuShare
    UserFillUp VariableAggregator VariableAssigner WenCai Wikipedia YahooFinance
    """,
)
"""The components and tools of RAGFlow's agents."""


@each_row("name", RAGFLOW)
def test_every_component_of_ragflow_exists(name: str) -> None:
    spec = load_catalog().get(RENAMED.get(name, name))
    assert spec is not None
    assert spec.description


def test_every_component_and_no_other_has_a_row() -> None:
    tools = {
        tool
        for name in ("the web", "knowledge and science", "finance", "translation and weather")
        for tool in ROWS[name].split(", ")
    }
    components = {name for name, pages in ROWS.items() if pages.startswith("[")}
    assert components.isdisjoint(tools)
    assert components | tools == {spec.name for spec in load_catalog()}


@each_row("name", sorted(spec.name for spec in load_catalog()))
def test_a_page_describes_the_component(name: str) -> None:
    pages = re.findall(r"\(([\w/.]+\.md)", ROWS[name]) if name in ROWS else ["tools.md"]
    texts = [DESCRIPTIONS if page == "components.md" else (DOCS / page).read_text("utf-8") for page in pages]
    assert any(re.search(rf"\b{name}\b", text) for text in texts), pages


def test_the_examples_are_valid(tmp_path: Path) -> None:
    components = {
        f"{one['component_name']}:A": {"obj": one, "downstream": [], "upstream": ["begin"]} for one in SNIPPETS
    }
    begin: Any = {"obj": {"component_name": "Begin", "params": {}}, "downstream": list(components), "upstream": []}
    file = tmp_path / "canvas.json"
    file.write_text(json.dumps({"components": {"begin": begin, **components}}))
    _, diagnostics, _ = check_file(file, Settings)
    codes = {one.code for one in diagnostics} - {"target-unknown", "reference-unknown-node", "reference-not-upstream"}
    assert codes == set(), diagnostics
