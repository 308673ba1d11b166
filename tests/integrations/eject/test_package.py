import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg import load_canvas
from ragflow_lg.base.errors import CompileError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.integrations.eject.package import EjectedPackage, eject_canvas
from tests.conftest import FIXTURES
from tests.fakes.canvas import canvas, node
from tests.harness.cases import Case, read_cases
from tests.harness.ejected import judge, judge_file, load_package
from tests.harness.rows import each_row

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.json"))
REFUSED = FIXTURES / "canvas" / "agent" / "with_components_of_later.json"
CANVASES = [*EXAMPLES, *sorted({*(FIXTURES / "canvas" / "agent").glob("*.json")} - {REFUSED})]
PLAYED = ("customer_service_router", "iteration", "loop")


def eject(document: Any) -> EjectedPackage:
    return eject_canvas(inspect_canvas(document, load_catalog()), name="shop", version="1.0")


@each_row("path", CANVASES)
def test_a_package_has_the_plan_of_its_canvas(path: Path) -> None:
    verdict = judge_file(path)
    assert verdict.state == "equal", verdict.text


@each_row("case", list(read_cases(FIXTURES / "random_canvases"))[::2])
def test_packages_of_random_canvases_have_their_plans(case: Case) -> None:
    verdict = judge(case.id, case.data["dsl"])
    assert verdict.state == "equal", verdict.text


@pytest.mark.parametrize("name", PLAYED)
async def test_a_package_answers_as_its_canvas(name: str, tmp_path: Path) -> None:
    source = (EXAMPLES[0].parent / f"{name}.json").read_bytes()
    written = load_package(eject(source), tmp_path)
    states = [
        await graph.ainvoke({"query": "Where is my parcel?"})
        for graph in (load_canvas(source, model="demo"), written.compile(model="demo"))
    ]
    assert states[0]["outputs"] == states[1]["outputs"]
    assert [m["content"] for m in states[0]["messages"]] == [m["content"] for m in states[1]["messages"]]


@each_row("path", EXAMPLES)
def test_the_bytes_are_always_the_same(path: Path) -> None:
    assert eject(path.read_bytes()).files == eject(path.read_bytes()).files


def test_a_node_that_runs_another_canvas_is_named(tmp_path: Path) -> None:
    from ragflow_lg.server.assembly.canvas_files import CanvasFiles
    from ragflow_lg.server.settings import Settings

    inner = canvas({"begin": node("Begin", {}, ["Message:A"]), "Message:A": node("Message", {"content": ["Hi."]})})
    (tmp_path / "inner.json").write_text(json.dumps(inner))
    outer = canvas({"begin": node("Begin", {}, ["Agent:A"]), "Agent:A": node("Canvas", {"path": "inner.json"})})
    checked = inspect_canvas(outer, load_catalog(), CanvasFiles(Settings, tmp_path / "outer.json"))
    with pytest.raises(CompileError) as caught:
        eject_canvas(checked, version="1.0")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.node) == ("eject-unsupported", "Agent:A")


def test_secrets_are_read_from_the_environment() -> None:
    secret = "tvly-0123456789abcdef"
    document = canvas(
        {
            "begin": node("Begin", {}, ["TavilySearch:A"]),
            "TavilySearch:A": node("TavilySearch", {"api_key": secret, "query": "sys.query"}),
        }
    )
    package = eject(document)
    assert not [path for path, text in package.files.items() if secret in text]
    assert package.secrets == {"TAVILY_SEARCH_A_API_KEY": secret}
    assert 'os.environ.get("TAVILY_SEARCH_A_API_KEY", "")' in package.files["shop/nodes/tavily_search_a.py"]
    assert "TAVILY_SEARCH_A_API_KEY" in package.files["README.md"].replace("\\", "")


@each_row(
    ("line", "is_secret"),
    [
        ("API_KEY = 'LEAK me'", True),
        ('password: str = "LEAK"', True),
        ('headers = {"accept": "x", "token": "LEAK"}', True),
        ("os.environ['DB_PASSWORD']='LEAK'", True),
        ('const apiKey = "LEAK";', True),
        ('name = "LEAK"', False),
        ('max_tokens = "LEAK"', False),
    ],
)
def test_secrets_that_a_script_assigns_are_read_from_the_environment(line: str, is_secret: bool) -> None:
    script = f"def main() -> dict:\n    {line}\n    return {{}}"
    package = eject(canvas({"CodeExec:A": node("CodeExec", {"lang": "python", "script": script, "arguments": {}})}))
    assert any("LEAK" in text for text in package.files.values()) is not is_secret
    if is_secret:
        (variable,) = package.secrets
        assert package.secrets[variable].startswith("LEAK")
        assert f'os.environ.get("{variable}", "")' in package.files["shop/nodes/code_exec_a.py"]


def test_prompts_stand_in_the_code_as_text() -> None:
    document = canvas({"LLM:A": node("LLM", {"llm_id": "m", "sys_prompt": "You are kind.\nAnswer {sys.query}."})})
    module = eject(document).files["shop/nodes/llm_a.py"]
    assert '"You are kind.\\n"\n' in module
    assert '"Answer {sys.query}."\n' in module
