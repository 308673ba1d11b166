import pytest

from ragflow_lg.components.canvas import canvas as component
from tests.fakes.canvas import canvas, node
from tests.fakes.policies import Canvases
from tests.fakes.regions import answer_of

SHOUT = canvas({"m": node("Message", {"content": "{sys.query}!"})})


async def test_a_node_runs_with_the_arguments_of_the_outer_canvas() -> None:
    components = {
        "c": node("Canvas", {"canvas": "shout", "arguments": {"query": "so {sys.query}"}}, ["m"]),
        "m": node("Message", {"content": ["{c@content} {c@result}"]}),
    }
    answer = await answer_of(components, deployment=Canvases({"shout": SHOUT}))
    assert answer == 'so q! {"content": "so q!", "downloads": []}'


@pytest.mark.parametrize("params", [{}, {"canvas": "a", "path": "b.json"}])
def test_exactly_one_of_canvas_and_path_is_required(params: dict[str, str]) -> None:
    findings = list(component.lint(component.params.model_validate(params)))
    assert [finding.code for finding in findings] == ["params-invalid"]
