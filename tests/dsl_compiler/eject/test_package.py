import ast
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.eject import EjectedPackage, eject_plan
from tests.conftest import FIXTURES
from tests.fakes.canvas import canvas, node
from tests.fakes.canvas import text as text_node
from tests.harness.ejected import demo_services, judge, judge_file, judge_random
from tests.harness.rows import each_row

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.json"))
REFUSED = FIXTURES / "canvas" / "agent" / "with_components_of_later.json"
CANVASES = [*EXAMPLES, *sorted({*(FIXTURES / "canvas" / "agent").glob("*.json")} - {REFUSED})]


def eject(document: object) -> EjectedPackage:
    plan, diagnostics = check_canvas(document, load_catalog())  # pyright: ignore[reportArgumentType]
    assert plan is not None, diagnostics
    return eject_plan(plan, name="shop", version="1.0")


@each_row("path", CANVASES)
def test_an_ejected_package_does_the_same_as_its_canvas(path: Path) -> None:
    verdict = judge_file(path)
    assert verdict.state == "equal", verdict.text


@each_row("seed", range(25))
def test_random_canvases_do_the_same_as_packages(seed: int) -> None:
    verdict = judge_random(seed)
    assert verdict.state == "equal", verdict.text


@each_row("path", EXAMPLES)
def test_the_bytes_are_always_the_same(path: Path) -> None:
    assert eject(path.read_bytes()).files == eject(path.read_bytes()).files


def test_a_node_without_counterpart_is_named() -> None:
    items = {"items_ref": "sys.files", "max_concurrency": 4}
    document = canvas(
        {
            "begin": node("Begin", {}, ["Iteration:A"]),
            "Iteration:A": node("Iteration", items, ["Message:A"]),
            "IterationItem:A": node("IterationItem", {}, ["StringTransform:A"], parent_id="Iteration:A"),
            "StringTransform:A": text_node(parent_id="Iteration:A"),
            "Message:A": node("Message", {"content": ["Done."]}),
        }
    )
    with pytest.raises(CompileError) as caught:
        eject(document)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.node) == ("eject-unsupported", "Iteration:A")
    assert "side by side" in diagnostic.message


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


def test_every_module_is_python() -> None:
    for path in EXAMPLES:
        for name, text_ in eject(path.read_bytes()).files.items():
            if name.endswith(".py"):
                ast.parse(text_)


def test_a_form_is_an_interrupt_and_a_loop_a_subgraph() -> None:
    size = eject((EXAMPLES[0].parent / "size_form.json").read_bytes()).files
    assert "interrupt(question, response_schema=schema)" in size["shop/nodes/size.py"]
    loop = eject((EXAMPLES[0].parent / "loop.json").read_bytes()).files["shop/nodes/double.py"]
    assert 'holds(output(state, "double", "value"), "≥", 100)' in loop
    assert 'builder.add_edge("step", "loop_item")' in loop
    assert "await BODY.ainvoke(entered, config, context=runtime.context)" in loop


def test_an_exception_route_is_a_command() -> None:
    query = {"query": "sys.query", "operations": "head", "n": 1}
    route = {"exception_method": "goto", "exception_goto": ["Message:Bad"]}
    document = canvas(
        {
            "begin": node("Begin", {}, ["ListOperations:A"]),
            "ListOperations:A": node("ListOperations", {**query, **route}, ["Message:Good"]),
            "Message:Good": node("Message", {"content": ["good"]}),
            "Message:Bad": node("Message", {"content": ["bad"]}),
        }
    )
    module = eject(document).files["shop/nodes/list_operations_a.py"]
    assert 'Command[Literal["message_good", "message_bad"]]' in module
    assert 'update={"list_operations_a": error.outputs}, goto=["message_bad"]' in module


def test_a_node_with_jinja_is_run_by_its_component() -> None:
    document = canvas({"Message:A": node("Message", {"content": ["{{ sys.query | upper }}{% if 1 %}x{% endif %}"]})})
    assert "COMPONENT.run(state, runtime)" in eject(document).files["shop/nodes/message_a.py"]


def test_an_iteration_collects_only_from_rounds_in_which_the_node_has_run() -> None:
    kept = {"operator": "=", "value": "2", "cpn_id": "IterationItem:A@item"}
    switch = {"conditions": [{"items": [kept], "to": ["StringTransform:A"]}], "end_cpn_ids": ["Message:A"]}
    script = {"method": "merge", "script": "n{IterationItem:A@item}"}
    collects = {"outputs": {"found": {"type": "Array<string>", "ref": "StringTransform:A@result"}}}
    document = canvas(
        {
            "begin": node("Begin", {}, ["StringTransform:B"]),
            "StringTransform:B": node(
                "StringTransform", {"method": "split", "split_ref": "sys.query", "delimiters": [","]}, ["Iteration:A"]
            ),
            "Iteration:A": node("Iteration", {"items_ref": "StringTransform:B@result", **collects}, ["Message:B"]),
            "IterationItem:A": node("IterationItem", {}, ["Switch:A"], parent_id="Iteration:A"),
            "Switch:A": node("Switch", switch, parent_id="Iteration:A"),
            "StringTransform:A": node("StringTransform", script, parent_id="Iteration:A"),
            "Message:A": node("Message", {"content": ["[{StringTransform:A@result}]"]}, parent_id="Iteration:A"),
            "Message:B": node("Message", {"content": ["{Iteration:A@found}"]}),
        }
    )
    verdict = judge("found", document, ["1,2,3,2", "3"], demo_services(None))
    assert verdict.state == "equal", verdict.text


GOTO = {"exception_method": "goto", "exception_goto": ["Message:C"]}
DEFAULT = {"exception_method": "comment", "exception_default_value": "nothing"}


@each_row("items", ["sys.query", "StringTransform:B@result"])
@each_row("downstream", [["Message:B"], []])
@each_row("policy", [GOTO, DEFAULT, {**DEFAULT, "exception_goto": ["Message:C"]}])
def test_an_iteration_may_go_elsewhere_without_a_list(
    policy: dict[str, Any], downstream: list[str], items: str
) -> None:
    collects = {"outputs": {"found": {"type": "Array<string>", "ref": "StringTransform:A@result"}}}
    split = {"method": "split", "split_ref": "sys.query", "delimiters": [","]}
    document = canvas(
        {
            "begin": node("Begin", {}, ["StringTransform:B", "Message:P"]),
            "StringTransform:B": node("StringTransform", split, ["Iteration:A"]),
            "Iteration:A": node("Iteration", {"items_ref": items, **collects, **policy}, downstream),
            "IterationItem:A": node("IterationItem", {}, ["StringTransform:A"], parent_id="Iteration:A"),
            "StringTransform:A": text_node(parent_id="Iteration:A"),
            "Message:B": node("Message", {"content": ["{Iteration:A@found}"]}),
            "Message:C": node("Message", {"content": ["{Iteration:A@_ERROR}"]}),
            "Message:P": node("Message", {"content": ["beside"]}),
        }
    )
    verdict = judge("route", document, ["1,2", "3"], demo_services(None))
    assert verdict.state == "equal", verdict.text


def test_a_node_with_an_exception_route_may_be_the_last_one() -> None:
    route = {"exception_method": "goto", "exception_goto": ["Message:Bad"]}
    document = canvas(
        {
            "begin": node("Begin", {}, ["ListOperations:A", "StringTransform:P"]),
            "ListOperations:A": node(
                "ListOperations", {"query": "sys.files", "operations": "head", "n": 1, **route}, []
            ),
            "Message:Bad": node("Message", {"content": ["bad"]}),
            "StringTransform:P": text_node(),
        }
    )
    verdict = judge("last", document, ["hello"], demo_services(None))
    assert verdict.state == "equal", verdict.text
