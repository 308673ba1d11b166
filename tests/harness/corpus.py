"""Check, compile and play real canvases as a demo: ``python -m tests.campaigns corpus DIR [-v]``.

``DIR`` has the folders ``agent``, ``graph_only``, ``legacy`` and ``pipeline``. Prints a line for each file, with ``-v``
also its answers, then ``N passed, N failed, N skipped``, and how many agents play to an answer or a form. A canvas with
supported components only has to run with the demo model and without any service. One with others has to be refused for
no other reason. A legacy canvas is upgraded and plays a conversation of three turns. Pipeline documents have to be
recognized.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.adapters.chat.chat_settings import DEMO, ChatModelSettings
from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.dsl.forms import FormField, form_fields
from ragflow_lg.dsl_compiler import check_canvas, upgrade_source
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.integrations.sql.configured_databases import ConfiguredDatabases
from ragflow_lg.integrations.sql.sql_settings import SqlSettings
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.wire.wire_events import Message
from ragflow_lg.services.chat import ChatModels
from ragflow_lg.services.databases import Databases
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.knowledge import Dataset
from tests.fakes.knowledge import FakeKnowledge
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
    answer: str = ""
    """What was shown, with the forms."""


SILENT = {"legacy/DB Assistant@ed04782c.json"}
"""Old canvases that gave no answer in RAGFlow either: the edges of this one point backwards."""


class EmptyHttp:
    """An HTTP client whose every response is empty."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, "{}", request.url)


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
    source = path.read_bytes()
    try:
        turns = 3 if upgrade_source(source, load_catalog()).changes else 1
        has_files = b"sys.files" in source
        status, error, shown = asyncio.run(asyncio.wait_for(play_plan(plan, turns, has_files=has_files), LIMIT_S))
    except RagflowLgError as failure:
        status, error, shown = "failed", str(failure), ""
    if name in SILENT:
        return Verdict(name, status == "silent", "ran; its nodes lead to no Answer")
    has_run = status == "succeeded"
    return Verdict(name, has_run, "ran" if has_run else f"compiled, then {status}: {error}", shown)


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


async def play_plan(
    plan: Plan, turns: int = 1, *, has_files: bool = False, models: ChatModels | None = None
) -> tuple[str, str | None, str]:
    """Return the status, the error and the text of a conversation, with the demo model by default."""
    request: TurnRequest = {"inputs": dict(sample_answers(plan.form))}
    if has_files:
        request["files"] = ["notes.txt"]
    models = models or ConfiguredModels(ChatModelSettings(override_model=DEMO))
    databases = {Databases: ConfiguredDatabases(SqlSettings(), AddressGuard())}
    services = fake_services(models=models, integrations=databases, is_demo=True)
    runner = Runner(lower_plan(plan), services, saver=InMemorySaver())
    status, error, answers = "succeeded", None, list[str]()
    for turn in range(turns):
        status, error, shown = await _play_turn(runner, {**request, "query": f"Question {turn}?"})
        answers.append(shown)
        if status == "succeeded" and turns > 1 and not shown:
            status = "silent"
        if status != "succeeded":
            break
    return status, error, "\n".join(answers)


async def _play_turn(runner: Runner, request: TurnRequest) -> tuple[str, str | None, str]:
    """Return the status, the error and the text that was shown."""
    run = runner.start("corpus", request)
    answered, shown = 0, ""
    while True:
        async for event in run:
            shown += event.content if isinstance(event, Message) else ""
        if run.status != "waiting" or answered == MAX_ANSWERS:
            break
        pauses = await runner.pauses("corpus")
        shown += "".join(f"\n[form] {pause.tips or ''}\n" for pause in pauses)
        answers = {p.id: dict(sample_answers(form_fields(p.inputs))) for p in pauses}
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
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1]).is_dir():
        sys.stderr.write("Usage: python -m tests.campaigns corpus DIR [-v]\n")
        return 2
    verdicts = [judge(path) for path in find_canvases(Path(sys.argv[1]))]
    for verdict in verdicts:
        sys.stdout.write(f"{'ok  ' if verdict.has_passed else 'FAIL'}  {verdict.file}  {verdict.text}\n")
        if sys.argv[2:] == ["-v"]:
            sys.stdout.write(f"{verdict.answer}\n")
    failed = sum(not v.has_passed for v in verdicts)
    sys.stdout.write(f"{len(verdicts) - failed} passed, {failed} failed, 0 skipped\n")
    answers = [verdict.answer.strip() for verdict in verdicts if verdict.file.startswith(("agent/", "legacy/"))]
    sys.stdout.write(f"{sum(map(bool, answers))} of {len(answers)} agents play to an answer or a form\n")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
