"""Titles of nodes never take the place of a name that the generated code uses."""

from ragflow_lg.integrations.eject.python_names import package_name
from tests.fakes.canvas import canvas, node
from tests.harness.ejected import judge
from tests.harness.rows import each_row


@each_row("title", ["Node", "Canvas", "Variables", "Build canvas", "Any", "Typing", "os", "graph", "class", "nodes"])
def test_a_title_may_be_a_word_of_the_code(title: str) -> None:
    prompts = [{"role": "user", "content": "{sys.query}"}]
    components = {
        "begin": node("Begin", {}, ["Message:A"]),
        "Message:A": node("Message", {"content": ["hi {sys.query}"]}, ["LLM:B"]),
        "LLM:B": node("LLM", {"llm_id": "m@P", "prompts": prompts}, ["Message:C"]),
        "Message:C": node("Message", {"content": ["{LLM:B@content}"]}),
    }
    nodes = [{"id": id_, "data": {"name": title}} for id_ in ("Message:A", "LLM:B")]
    document = canvas(components, variables={"s": {"name": "pin", "type": "string", "value": "a secret"}})
    verdict = judge(title, {"title": title, "dsl": {**document, "graph": {"nodes": nodes, "edges": []}}})
    assert verdict.state == "equal", verdict.text


@each_row("title", ["typing", "asyncio", "json", "ragflow_lg", "pytest", "Nodes", "../typing"])
def test_a_package_hides_no_module_that_it_imports(title: str) -> None:
    assert package_name(title).endswith("_graph")
