"""Whole canvases: the project's own in every shape, the examples, and real ones if available."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl_compiler import check_canvas, compile_canvas
from ragflow_lg.dsl_compiler.schema import canvas_schema
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.canvas_files import canvas_files
from tests.conftest import FIXTURES
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.corpus import find_canvases, judge
from tests.harness.rows import each_row
from tests.stores import store_opener

EXAMPLES = Path(__file__).parents[1] / "examples"

NOT_A_CANVAS = {"multi_step_workflow_example@3f71a7e8.json"}
"""Real documents that RAGFlow itself refuses, because of an unknown mode of Begin."""


@each_row("path", find_canvases(FIXTURES / "canvas"))
def test_own_canvas_has_the_expected_result(path: Path) -> None:
    verdict = judge(path)
    assert verdict.has_passed, verdict.text
    assert verdict.text != "ran" or verdict.answer.strip()


@each_row("path", canvas_files(EXAMPLES))
def test_example_runs(path: Path) -> None:
    verdict = judge(path)
    assert verdict.text == "ran"


def test_real_canvases_have_the_expected_results(shared_corpus: Path) -> None:
    verdicts = [judge(path) for path in find_canvases(shared_corpus)]
    assert [f"{v.file}: {v.text}" for v in verdicts if not v.has_passed] == []
    assert [v.file for v in verdicts if v.text == "ran" and not v.answer.strip()] == []


def test_real_canvases_satisfy_the_schema(shared_corpus: Path) -> None:
    validator: Any = Draft202012Validator(canvas_schema(load_catalog()))
    for path in [*(shared_corpus / "agent").glob("*.json"), *(shared_corpus / "graph_only").glob("*.json")]:
        errors = [error.message for error in validator.iter_errors(json.loads(path.read_text(encoding="utf-8")))]
        assert bool(errors) == (path.name in NOT_A_CANVAS), f"{path.name}: {errors[:1]}"


def test_no_parameter_of_a_real_canvas_is_unknown(shared_corpus: Path) -> None:
    found = [
        (path.name, d)
        for path in find_canvases(shared_corpus)
        for d in check_canvas(path.read_bytes(), load_catalog())[1]
    ]
    assert [
        (name, d.pointer) for name, d in found if d.code == "params-unknown" and "has no parameter" in d.message
    ] == []


class AnyParams(ComponentParams):
    """Params of any content."""


class FixedOutputs(ComponentOutputs):
    result: int = 0
    formalized_content: str = ""


def fixed_component(name: str) -> Any:
    """Build a component with fixed outputs, for one that this version lacks."""

    @component(name, params=AnyParams, outputs=FixedOutputs, description="Returns fixed outputs.")
    async def run(ctx: Any, params: AnyParams) -> FixedOutputs:
        return FixedOutputs(result=42, formalized_content="found")

    return run


MENU = (
    "loop", "iteration", "retrieval", "condition", "data_ops", "text", "var_assigner", "var_aggregator", "categorize",
    "code", "message", "wait_input",
)  # fmt: skip


@each_row("choice", MENU)
async def test_every_branch_of_the_menu_is_played_with_restarts(
    shared_corpus: Path, choice: str, tmp_path: Path
) -> None:
    reopen = store_opener(f"sqlite:///{tmp_path}/{choice}.db")
    catalog = load_catalog()
    catalog.add(fixed_component("CodeExec"), replace=True)
    canvas = compile_canvas((shared_corpus / "agent" / "all@7835ee82.json").read_bytes(), catalog)
    answers = iter([choice, "more", "2", "1", "1"])
    services = fake_services(models=OneModel(ScriptedModel([Reply("loop", repeat=True)])))
    status, answer, turns = "", "", 0
    while status != "succeeded":
        turns += 1
        assert turns < 8
        async with reopen() as opened:
            runner = Runner(canvas, services, store=opened)
            pauses = await runner.pauses("s")
            fields = [field for pause in pauses for field in form_fields(pause.inputs)]
            inputs = {f.name: 5 if f.type == "integer" else next(answers) for f in fields}
            run = runner.resume("s", inputs) if inputs else runner.start("s", {"query": "hi"})
            async for _ in run:
                pass
            status, answer = run.status, run.answer
            if choice == "retrieval" and status == "failed":
                assert run.error == "No dataset is selected."  # the canvas names none
                return
            assert status in ("waiting", "succeeded"), run.error
    assert answer
    assert choice != "retrieval"
