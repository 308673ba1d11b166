"""Whole canvases: the project's own in every shape, real ones where they are there, and the examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from dsl_compiler.schema import canvas_schema
from ragflow_lg.catalog import load_catalog
from tests.conftest import FIXTURES
from tests.harness.corpus import files_of, judge

EXAMPLES = Path(__file__).parents[1] / "examples"

NOT_A_CANVAS = {"multi_step_workflow_example@3f71a7e8.json"}
"""Real documents that RAGFlow itself refuses: a mode of Begin that it does not have."""


@pytest.mark.parametrize("path", files_of(FIXTURES / "canvas"), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_own_canvas(path: Path) -> None:
    verdict = judge(path)
    assert verdict.is_right, verdict.text


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.name)
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
