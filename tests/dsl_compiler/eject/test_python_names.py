"""Titles of nodes never take the place of a name that the generated code uses."""

import ast
from collections.abc import Iterator

import ragflow_lg.ejected
from ragflow_lg.dsl_compiler.eject import EjectedPackage, python_names
from ragflow_lg.dsl_compiler.eject.python_names import RESERVED, package_name
from tests.dsl_compiler.eject.test_package import CANVASES, eject
from tests.fakes.canvas import canvas, node
from tests.harness.ejected import demo_services, judge
from tests.harness.random_canvases import RandomCanvas
from tests.harness.rows import each_row


def own_names(package: EjectedPackage) -> set[str]:
    """Return the names in the code of a package that it shares with a node or derives from one."""
    derived = {form for name in package.names.values() for form in python_names.derived_names(name)}
    return {package.name, *package.names.values(), *derived}


def names_in(text: str) -> Iterator[str]:
    """Yield the names that a module defines, imports or assigns."""
    for part in ast.walk(ast.parse(text)):
        match part:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.name for alias in names)
            case _:
                pass


def test_all_names_in_generated_code_are_reserved() -> None:
    documents = [path.read_bytes() for path in CANVASES] + [RandomCanvas(n).case("")["dsl"] for n in range(30)]
    found = set(ragflow_lg.ejected.__all__)
    for document in documents:
        package = eject(document)
        modules = [text for path, text in package.files.items() if path.endswith(".py") and "tests/" not in path]
        found |= {name for text in modules for name in names_in(text)} - own_names(package)
    assert {name for name in found if name == name.lower()} <= RESERVED


@each_row("title", ["Show", "Builder", "Variable", "Output", "Join text", "Typing", "Item", "State"])
def test_a_title_may_be_a_word_of_the_code(title: str) -> None:
    prompts = [{"role": "user", "content": "{sys.query}"}]
    components = {
        "begin": node("Begin", {}, ["Message:A"]),
        "Message:A": node("Message", {"content": ["hi {sys.query}"]}, ["LLM:B"]),
        "LLM:B": node("LLM", {"llm_id": "m@P", "prompts": prompts}, ["Message:C"]),
        "Message:C": node("Message", {"content": ["{LLM:B@content}"]}),
    }
    nodes = [{"id": id_, "data": {"name": title}} for id_ in ("Message:A", "LLM:B")]
    document = {"title": title, "dsl": {**canvas(components), "graph": {"nodes": nodes, "edges": []}}}
    assert judge(title, document, ["hello"], demo_services(None)).state == "equal"


def test_a_loop_and_a_node_may_have_similar_titles() -> None:
    components = {
        "begin": node("Begin", {}, ["Loop:A"]),
        "Loop:A": node("Loop", {"maximum_loop_count": 2}, ["Message:A"]),
        "StringTransform:A": node("StringTransform", {"method": "merge", "script": "x"}, parent_id="Loop:A"),
        "Message:A": node("Message", {"content": ["x"]}),
    }
    titles = {"Loop:A": "again", "StringTransform:A": "again round start", "Message:A": "build body of again"}
    nodes = [{"id": id_, "data": {"name": title}} for id_, title in titles.items()]
    document = {**canvas(components), "graph": {"nodes": nodes, "edges": []}}
    assert judge("similar", document, ["hello"], demo_services(None)).state == "equal"


@each_row("title", ["typing", "asyncio", "json", "ragflow_lg", "pytest", "Nodes", "../typing"])
def test_a_package_hides_no_module_that_it_imports(title: str) -> None:
    assert package_name(title).endswith("_graph")
