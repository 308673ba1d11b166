"""Check, compile and run real canvases: ``python -m tests.harness.corpus DIR``.

``DIR`` has the folders ``agent``, ``graph_only``, ``legacy`` and ``pipeline``. One line a file, then
``N passed, N failed, N skipped``. What is owed: a canvas without components that are still to come runs with
the demo model; one with such components is refused for nothing else; legacy and pipeline documents are named
as such.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl.forms import FormField, form_fields
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Dataset
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.services import fake_services

MOST_ANSWERS = 10
LIMIT_S = 30
EXAMPLES: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "object": {}, "file": []}

OWED: dict[str, frozenset[str]] = {
    "agent": frozenset({"component-not-yet", "component-unknown", "legacy-component"}),
    "graph_only": frozenset({"component-not-yet", "pipeline-document", "legacy-component"}),
    "legacy": frozenset({"legacy-component"}),
    "pipeline": frozenset({"pipeline-document"}),
}
"""Codes with which a document of each folder may be refused."""


@dataclass(frozen=True)
class Verdict:
    """What became of one file."""

    file: str
    is_right: bool
    text: str


FAILING = {"agent/iteration@dc976aa8.json": "structured_content must be an array"}
"""Canvases that end with an error in RAGFlow too: this one reads an output that an Agent no longer has."""


class EmptyServices:
    """Finds nothing, whatever a tool asks."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, "{}", request.url)


class AnyKnowledge(FakeKnowledge):
    """Has every dataset that a canvas names, with the same chunks."""

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        return {asked: Dataset("ds1", asked) for asked in names_or_ids}


class DemoModels:
    """The demo model, whatever a canvas names."""

    def model(self, llm_id: str) -> DemoChat:
        return DemoChat()


def judge(path: Path) -> Verdict:
    """Check, compile and run one file."""
    era = path.parent.name
    name = f"{era}/{path.name}"
    plan, diagnostics = check_canvas(path.read_bytes(), load_catalog())
    errors = [d for d in diagnostics if d.severity == "error"]
    if plan is None:
        return _refused(name, era, errors)
    if era in ("legacy", "pipeline"):
        return Verdict(name, False, "compiled, but should be refused")
    document = _with_datasets(json.loads(path.read_bytes()))
    plan = check_canvas(document, load_catalog())[0] or plan
    try:
        status, error = asyncio.run(asyncio.wait_for(_run(plan), LIMIT_S))
    except RagflowLgError as failure:
        status, error = "failed", str(failure)
    if name in FAILING:
        return Verdict(name, status == "failed" and FAILING[name] in str(error), f"fails as it should: {error}")
    return Verdict(name, status == "succeeded", "ran" if status == "succeeded" else f"compiled, then {status}: {error}")


def _with_datasets(value: Any) -> Any:
    """Let every Retrieval of a document that names no dataset search one: templates come without."""
    if isinstance(value, list):
        return [_with_datasets(entry) for entry in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    held = {key: _with_datasets(entry) for key, entry in cast("dict[str, Any]", value).items()}
    params = held.get("params")
    if held.get("component_name") == "Retrieval" and isinstance(params, dict):
        given = cast("dict[str, Any]", params)
        held["params"] = {**given, "dataset_ids": given.get("dataset_ids") or given.get("kb_ids") or ["any"]}
    return held


def _refused(name: str, era: str, errors: list[Diagnostic]) -> Verdict:
    codes = sorted({d.code for d in errors})
    owed = OWED.get(era, frozenset())
    if "component-unknown" in codes:
        owed |= {"params-invalid"}  # a document for something that RAGFlow itself does not have
    strange = [d for d in errors if d.code not in owed]
    if strange:
        return Verdict(name, False, f"refused: {strange[0]}")
    return Verdict(name, bool(codes), "refused " + " ".join(codes))


async def _run(plan: Plan) -> tuple[str, str | None]:
    services = fake_services(models=DemoModels(), http=EmptyServices(), knowledge=AnyKnowledge())
    runner = Runner(lower_plan(plan), services)
    run = runner.start("corpus", {"query": "hello", "inputs": dict(_filled(plan.form))})
    for _ in range(MOST_ANSWERS):
        async for _ in run:
            pass
        if run.status != "waiting":
            break
        answers = {p.id: dict(_filled(form_fields(p.inputs))) for p in await runner.pauses("corpus")}
        run = runner.resume("corpus", answers)
    return run.status, run.error


def _filled(form: Iterable[FormField]) -> Iterator[tuple[str, Any]]:
    for field in form:
        if field.options:
            yield field.name, {"value": field.options[0]}
        else:
            yield field.name, {"value": EXAMPLES.get(field.type.lower(), "hello")}


def files_of(folder: Path) -> list[Path]:
    """Give all canvases of a corpus."""
    return [path for era in OWED for path in sorted((folder / era).glob("*.json"))]


def main() -> int:
    """Run from the command line."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("Usage: python -m tests.harness.corpus DIR\n")
        return 2
    verdicts = [judge(path) for path in files_of(Path(sys.argv[1]))]
    for verdict in verdicts:
        sys.stdout.write(f"{'ok  ' if verdict.is_right else 'FAIL'}  {verdict.file}  {verdict.text}\n")
    failed = sum(not v.is_right for v in verdicts)
    sys.stdout.write(f"{len(verdicts) - failed} passed, {failed} failed, 0 skipped\n")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
