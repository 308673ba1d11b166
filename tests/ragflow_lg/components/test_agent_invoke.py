from typing import Any

from ragflow_lg.components.agent_invoke import agent_invoke
from tests.fakes.canvas import canvas, diagnostics_of, node
from tests.fakes.policies import Canvases
from tests.fakes.regions import answer_of, out, runner_of

FIELDS = {"tone": {"name": "tone", "type": "line", "optional": True}}
SHOUT = canvas({"begin": node("Begin", {"inputs": FIELDS}, ["out"]), **out("{sys.query}! {begin@tone}")})


def components(**params: Any) -> dict[str, Any]:
    return {"c": node("AgentInvoke", {"agent_id": "7f3a", **params}, ["out"]), **out("{c@answer}/{c@result}")}


async def test_the_canvas_with_the_id_runs_with_the_question_and_the_inputs() -> None:
    inputs = {"tone": "{sys.query}", "unknown": 1}
    answer = await answer_of(components(query="so {sys.query}", inputs=inputs), deployment=Canvases({"7f3a": SHOUT}))
    assert answer == "so q! q/so q! q"


async def test_its_failure_is_an_error_of_the_node() -> None:
    run = runner_of(components(), deployment=Canvases({"7f3a": SHOUT})).start("s", {"query": "q"})
    async for _ in run:
        pass
    assert run.error == "Invalid arguments: 'query' is required and must be text."


def test_an_unknown_id_is_reported_at_its_parameter() -> None:
    (diagnostic,) = diagnostics_of(canvas(components(query="q")), "canvas-unknown")
    assert diagnostic.pointer.endswith("/agent_id")
    assert "[canvases]" in diagnostic.hint


def test_invalid_and_unsupported_params_are_reported() -> None:
    for wrong in ({"agent_id": ""}, {"agent_id": "{sys.query}"}, {"timeout_seconds": 0}):
        assert diagnostics_of(canvas(components(**wrong)), "params-invalid")
    params = agent_invoke.params.model_validate({"agent_id": "x", "create_new_session": False})
    assert [finding.code for finding in agent_invoke.lint(params)] == ["params-unsupported"]
