"""Whole canvases: the project's own in every shape, real ones where they are there, and the examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.dsl_compiler.schema import canvas_schema
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.canvas_files import canvas_files
from tests.conftest import FIXTURES
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.corpus import files_of, judge
from tests.stores import OpenStore

EXAMPLES = Path(__file__).parents[1] / "examples"

NOT_A_CANVAS = {"multi_step_workflow_example@3f71a7e8.json"}
"""Real documents that RAGFlow itself refuses: a mode of Begin that it does not have."""


@pytest.mark.parametrize("path", files_of(FIXTURES / "canvas"), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_own_canvas(path: Path) -> None:
    verdict = judge(path)
    assert verdict.is_right, verdict.text


@pytest.mark.parametrize("path", canvas_files(EXAMPLES), ids=lambda path: path.name)
def test_example_runs(path: Path) -> None:
    verdict = judge(path)
    assert verdict.text == "ran"


def test_real_canvases(shared_corpus: Path) -> None:
    wrong = [f"{v.file}: {v.text}" for v in map(judge, files_of(shared_corpus)) if not v.is_right]
    assert wrong == []


def test_real_canvases_satisfy_the_schema(shared_corpus: Path) -> None:
    validator = Draft202012Validator(canvas_schema(load_catalog()))
    for path in [*(shared_corpus / "agent").glob("*.json"), *(shared_corpus / "graph_only").glob("*.json")]:
        errors = [error.message for error in validator.iter_errors(json.loads(path.read_text(encoding="utf-8")))]
        assert bool(errors) == (path.name in NOT_A_CANVAS), f"{path.name}: {errors[:1]}"


class Anything(ComponentParams):
    pass


class Given(ComponentOutputs):
    result: int = 0
    formalized_content: str = ""


def stand_in(name: str) -> Any:
    """A component that the canvas needs and this version lacks."""

    @component(name, params=Anything, outputs=Given, description="Stands in.")
    async def run(ctx: Any, params: Anything) -> Given:
        return Given(result=42, formalized_content="found")

    return run


MENU = (
    "loop", "iteration", "retrieval", "condition", "data_ops", "text", "var_assigner", "var_aggregator", "categorize",
    "code", "message", "wait_input",
)  # fmt: skip


@pytest.mark.parametrize("choice", MENU)
async def test_every_branch_of_the_menu_is_played_with_restarts(
    shared_corpus: Path, choice: str, reopen_shared: OpenStore
) -> None:
    catalog = load_catalog()
    catalog.add(stand_in("CodeExec"))
    canvas = compile_canvas((shared_corpus / "agent" / "all@7835ee82.json").read_bytes(), catalog)
    answers = iter([choice, "more", "2", "1", "1"])
    services = fake_services(models=OneModel(ScriptedModel([Reply("loop", repeat=True)])))
    status, turns = "", 0
    while status != "succeeded":
        turns += 1
        assert turns < 8
        async with reopen_shared() as store:
            runner = Runner(canvas, services, store=store)
            pauses = await runner.pauses("s")
            fields = [field for pause in pauses for field in form_fields(pause.inputs)]
            given = {f.name: 5 if f.type == "integer" else next(answers) for f in fields}
            run = runner.resume("s", given) if given else runner.start("s", {"query": "hi"})
            async for _ in run:
                pass
            status = run.status
            assert status in ("waiting", "succeeded"), run.error
    assert run.answer
