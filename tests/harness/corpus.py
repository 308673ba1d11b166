"""Check, compile and run real canvases: ``python -m tests.campaigns corpus DIR``.

``DIR`` has the folders ``agent``, ``graph_only``, ``legacy`` and ``pipeline``. Prints a line for each file, then
``N passed, N failed, N skipped``. A canvas with supported components only has to run with the demo model. One with
others has to be refused for no other reason. A legacy canvas is upgraded and plays a conversation of three turns.
Pipeline documents have to be recognized.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl.forms import FormField, form_fields
from ragflow_lg.dsl_compiler import check_canvas, upgrade_source
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.integrations.browser.browsers import Browsers
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.integrations.documents.worker_reports import WorkerReports
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.services.databases import Databases
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Dataset
from ragflow_lg.services.reports import Reports
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.databases import new_database, open_databases
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import fake_services

MAX_ANSWERS = 10
LIMIT_S = 30
EXAMPLES: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "object": {}, "file": ["notes.txt"]}

REFUSAL_CODES: dict[str, frozenset[str]] = {
    "agent": frozenset({"component-unknown"}),
    "graph_only": frozenset({"pipeline-document"}),
    "legacy": frozenset(),
    "pipeline": frozenset({"pipeline-document"}),
}
"""The codes that may refuse a document of each folder."""


@dataclass(frozen=True)
class Verdict:
    """The result for one file."""

    file: str
    has_passed: bool
    text: str


FAILING = {"agent/iteration@dc976aa8.json": "structured_content must be an array"}
"""Canvases that also fail in RAGFlow: one reads an output that Agents no longer have."""


SILENT = {"legacy/DB Assistant@ed04782c.json"}
"""Old canvases that gave no answer in RAGFlow either: the edges of this one point backwards."""


class EmptyHttp:
    """An HTTP client whose every response is empty."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, "{}", request.url)


class ClosedBrowsers:
    """Browsers that nobody opens: the demo model answers without looking at a page."""

    def check(self) -> None:
        """Permit the component to begin."""


class AnyKnowledge(FakeKnowledge):
    """A knowledge base with every dataset that a canvas names, all with the same chunks."""

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        return {name: Dataset("ds1", name) for name in names_or_ids}


class DemoModels:
    """Models that are all the demo model."""

    def model(self, llm_id: str) -> DemoChat:
        return DemoChat()


def judge(path: Path) -> Verdict:
    """Check, compile and run one file."""
    era = path.parent.name
    name = f"{era}/{path.name}"
    plan, diagnostics = check_canvas(path.read_bytes(), load_catalog())
    errors = [d for d in diagnostics if d.severity == "error"]
    if plan is None:
        return _judge_refusal(name, era, errors)
    if era == "pipeline":
        return Verdict(name, False, "was compiled, but should be refused")
    document = complete_params(json.loads(path.read_bytes()))
    plan = check_canvas(document, load_catalog())[0] or plan
    try:
        turns = 3 if upgrade_source(path.read_bytes(), load_catalog()).changes else 1
        status, error = asyncio.run(asyncio.wait_for(_run(plan, turns), LIMIT_S))
    except RagflowLgError as failure:
        status, error = "failed", str(failure)
    if name in SILENT:
        return Verdict(name, status == "silent", "ran; its nodes lead to no Answer")
    if name in FAILING:
        return Verdict(name, status == "failed" and FAILING[name] in str(error), f"fails as expected: {error}")
    return Verdict(name, status == "succeeded", "ran" if status == "succeeded" else f"compiled, then {status}: {error}")


def complete_params(value: Any) -> Any:
    """Add a dataset to every Retrieval without one, and a database to every ExeSQL, since templates have none.

    ``value`` is a canvas, or a part of one.
    """
    if isinstance(value, list):
        return [complete_params(entry) for entry in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    copy = {key: complete_params(entry) for key, entry in cast("dict[str, Any]", value).items()}
    params = copy.get("params")
    if copy.get("component_name") == "Retrieval" and isinstance(params, dict):
        fields = cast("dict[str, Any]", params)
        copy["params"] = {**fields, "dataset_ids": fields.get("dataset_ids") or fields.get("kb_ids") or ["any"]}
    elif copy.get("component_name") == "ExeSQL" and isinstance(params, dict):
        copy["params"] = {**cast("dict[str, Any]", params), "connection": "reader"}
    return copy


def _judge_refusal(name: str, era: str, errors: list[Diagnostic]) -> Verdict:
    codes = sorted({d.code for d in errors})
    expected = REFUSAL_CODES.get(era, frozenset())
    if {"canvas-unknown", "component-unknown"} & set(codes):
        expected |= {"canvas-unknown", "params-invalid"}  # it has AgentInvoke, which RAGFlow itself does not have
    unexpected = [d for d in errors if d.code not in expected]
    if unexpected:
        return Verdict(name, False, f"refused: {unexpected[0]}")
    return Verdict(name, bool(codes), "refused " + " ".join(codes))


async def _run(plan: Plan, turns: int = 1) -> tuple[str, str | None]:
    with tempfile.TemporaryDirectory() as folder, new_database("sqlite", Path(folder)) as account:
        databases = open_databases(account)
        services = fake_services(
            models=DemoModels(),
            http=EmptyHttp(),
            knowledge=AnyKnowledge(),
            artifacts=NamedArtifacts(),
            integrations={
                Browsers: ClosedBrowsers(),
                Databases: databases,
                Reports: WorkerReports(ReportSettings(system_fonts=False), NoWorkers()),
            },
        )
        runner = Runner(lower_plan(plan), services, saver=InMemorySaver())
        status, error = "succeeded", None
        for turn in range(turns):
            status, error, shown = await _play_turn(runner, plan, f"Question {turn}?")
            if status == "succeeded" and turns > 1 and not shown:
                status = "silent"
            if status != "succeeded":
                break
    return status, error


async def _play_turn(runner: Runner, plan: Plan, query: str) -> tuple[str, str | None, str]:
    """Return the status, the error and the text that was shown."""
    run = runner.start("corpus", {"query": query, "inputs": dict(sample_answers(plan.form))})
    answered, shown = 0, ""
    while True:
        async for event in run:
            shown += event.content if isinstance(event, Message) else ""
        if run.status != "waiting" or answered == MAX_ANSWERS:
            break
        answers = {p.id: dict(sample_answers(form_fields(p.inputs))) for p in await runner.pauses("corpus")}
        run, answered = runner.resume("corpus", answers), answered + 1
    # A menu that comes back after every answer never ends.
    return "succeeded" if run.status == "waiting" else run.status, run.error, shown


def sample_answers(form: Iterable[FormField]) -> Iterator[tuple[str, Any]]:
    """Yield a value for each field of a form."""
    for field in form:
        if field.options:
            yield field.name, {"value": field.options[0]}
        else:
            yield field.name, {"value": EXAMPLES.get(field.type.lower(), "hello")}


def find_canvases(folder: Path) -> list[Path]:
    """Return all canvases of a corpus."""
    return [path for era in REFUSAL_CODES for path in sorted((folder / era).glob("*.json"))]


def main() -> int:
    """Run from the command line."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("Usage: python -m tests.campaigns corpus DIR\n")
        return 2
    verdicts = [judge(path) for path in find_canvases(Path(sys.argv[1]))]
    for verdict in verdicts:
        sys.stdout.write(f"{'ok  ' if verdict.has_passed else 'FAIL'}  {verdict.file}  {verdict.text}\n")
    failed = sum(not v.has_passed for v in verdicts)
    sys.stdout.write(f"{len(verdicts) - failed} passed, {failed} failed, 0 skipped\n")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
