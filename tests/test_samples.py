"""The samples of the pages: they can be read, and name what there is."""

import ast
import builtins
import json
import re
import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.server.settings import Settings
from tests.harness.pages import PAGES, ROOT
from tests.harness.rows import each_row

GIVEN = {"play", "run", "runner"}
"""What a sample may leave to its reader."""


def samples(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


def unknown_settings(table: dict[str, Any]) -> list[str]:
    """Return the settings that do not exist, unless the table is of a project or of rules of mock-llm."""
    if not {"project", "rules", "audio"}.isdisjoint(table):
        return []
    try:
        Settings.model_validate(table)
    except ValidationError as error:
        return [str(each["loc"]) for each in error.errors() if each["type"] == "extra_forbidden"]
    return []


@each_row("page", PAGES)
def test_settings_and_canvases_can_be_read(page: str) -> None:
    for text in samples(page, "toml"):
        assert unknown_settings(tomllib.loads(text)) == [], text
    for text in samples(page, "json"):
        json.loads(text if text.startswith("{") else f"{{{text}}}")


@each_row("page", PAGES)
def test_programs_import_what_they_use(page: str) -> None:
    known: set[str] = set()
    for text in samples(page, "python"):
        if "ragflow_sdk" in text:
            continue  # it is run with SDKs of its own, by test_sdk_versions
        module = compile(text, page, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        nodes = list(ast.walk(module))
        imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(list(imports), []), page, "exec"), {})
        known |= {alias.asname or alias.name for node in imports for alias in node.names}
        known |= {
            node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        names = [node for node in nodes if isinstance(node, ast.Name)]
        known |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
        assert {node.id for node in names} - known - set(dir(builtins)) - GIVEN == set(), text


def test_the_example_of_webhooks_is_that_of_its_page() -> None:
    canvas = json.loads((ROOT / "examples" / "webhook.json").read_text("utf-8"))
    assert json.loads(samples("docs/webhooks.md", "json")[0]) == canvas["components"]["begin"]["obj"]["params"]


RUN = [
    *(("docs/library.md", at) for at in range(4)),
    *(("docs/langchain.md", at) for at in range(2, 5)),
    ("README.md", 0),
]


@pytest.mark.parametrize(("page", "at"), RUN)
async def test_samples_with_graphs_run(page: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = samples(page, "python")[at]
    if "import load_canvas" not in text:
        text = "from ragflow_lg import load_canvas\n" + text
    text = text.replace("asyncio.run(main())", "await main()")  # a loop runs here already
    program = compile(text, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(program, {"__name__": "sample"})
    if running is not None:
        await running
