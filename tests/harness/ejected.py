"""Compare ejected packages with the canvases: ``python -m tests.campaigns eject [FILE_OR_DIR …] [OPTIONS]``.

``--random COUNT`` adds random canvases, ``--cases DIR`` the canvases of recorded cases with their models.
``--packages DIR`` also writes all packages, and has Ruff and Pyright (strict) check them.

Both graphs play the same turns with the same model. The answers, the outputs of all nodes, the variables, the open
forms, the requests to the model and to HTTP servers, and the order of the nodes have to be the same. Prints a line for
each canvas, then ``N equal, N different, N unsupported``.
"""

import argparse
import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from msgspec.structs import replace

from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.adapters.reports.report_settings import ReportSettings
from ragflow_lg.adapters.reports.worker_reports import WorkerReports
from ragflow_lg.base.errors import CompileError, ComponentError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.eject import EjectedPackage, eject_plan
from ragflow_lg.dsl_compiler.lower import lower_plan
from ragflow_lg.dsl_compiler.names import CLOSING_NODE, node_id
from ragflow_lg.server.assembly.ejection import format_files
from ragflow_lg.services.chat import ChatAnswer, ChatRequest
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.services import Services
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.databases import new_database, open_databases
from tests.fakes.sandbox_service import NamedArtifacts
from tests.fakes.services import OneModel, fake_services
from tests.harness.cases import Case, read_cases
from tests.harness.corpus import AnyKnowledge, complete_params, sample_answers
from tests.harness.play import build_model
from tests.harness.random_canvases import RandomCanvas

ROOT = Path(__file__).parents[2]
MAX_ANSWERS = 6
LIMIT_S = 60

OpenServices = Callable[[list[Any]], Services]
"""Opens services that append what they are asked to a list."""


@dataclass
class Played:
    """What one graph did in one turn."""

    order: list[Any] = field(default_factory=list[Any])
    """For each graph, by the path of the nodes around it: the nodes of each superstep, sorted."""
    pauses: list[Any] = field(default_factory=list[Any])
    outputs: dict[str, Any] = field(default_factory=dict[str, Any])
    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    history: list[Any] = field(default_factory=list[Any])
    messages: list[Any] = field(default_factory=list[Any])
    error: str = ""
    requests: list[Any] = field(default_factory=list[Any])


class HeardDemo(DemoChat):
    """The demo model; it appends its requests to a list."""

    def __init__(self, heard: list[Any]) -> None:
        super().__init__()
        self.heard = heard

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        self.heard.append(repr(request))
        return await super().complete(request)

    def stream(self, request: ChatRequest) -> Any:
        self.heard.append(repr(request))
        return super().stream(request)


class HeardModels:
    """Models that are all the demo model."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    def model(self, llm_id: str) -> HeardDemo:
        self.heard.append(llm_id)
        return HeardDemo(self.heard)


class HeardHttp:
    """An HTTP client whose every response is empty."""

    def __init__(self, heard: list[Any]) -> None:
        self.heard = heard

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.heard.append(f"{request.method} {request.url}")
        return HttpResponse(200, {}, "{}", request.url)


def demo_services(databases: Any) -> OpenServices:
    """Return how to open services with the demo model."""

    def open_services(heard: list[Any]) -> Services:
        return fake_services(
            models=HeardModels(heard),
            http=HeardHttp(heard),
            knowledge=AnyKnowledge(),
            databases=databases,
            artifacts=NamedArtifacts(),
            reports=WorkerReports(ReportSettings(system_fonts=False), NoWorkers()),
        )

    return open_services


# The two graphs


class Graph:
    """A graph with a conversation, and how it names its nodes."""

    def __init__(self, graph: Any, context: Any, ids: Callable[[str], str | None], heard: list[Any]) -> None:
        self.graph = graph.copy(update={"checkpointer": InMemorySaver()})
        self.context = context
        self.ids = ids
        self.heard = heard

    async def play(self, request: Any, plan: Plan) -> Played:
        """Play a turn and answer its forms."""
        played, steps = Played(), dict[tuple[Any, ...], set[str]]()
        config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 1000}
        for _ in range(MAX_ANSWERS):
            stream = self.graph.astream(
                request, config, context=self.context, stream_mode="debug", subgraphs=True, durability="sync"
            )
            try:
                async for namespace, event in stream:
                    self._note(namespace, event, steps)
            except ComponentError as error:
                played.error = str(error)
            state = await self.graph.aget_state(config)
            pauses = [pause for task in state.tasks for pause in task.interrupts]
            if not pauses or played.error:
                break
            played.pauses.append(
                sorted(repr({k: p.value.get(k) for k in ("component_id", "tips", "inputs")}) for p in pauses)
            )
            request = Command(resume={p.id: dict(sample_answers(form_fields(p.value["inputs"]))) for p in pauses})
        played.order = _by_graph(steps)
        played.requests, self.heard[:] = sorted(map(repr, self.heard)), []
        self.read((await self.graph.aget_state(config)).values, played, plan)
        return played

    def _note(self, namespace: Sequence[str], event: Any, steps: dict[tuple[Any, ...], set[str]]) -> None:
        payload = event["payload"]
        if event["type"] != "task_result" or payload.get("interrupts") or payload.get("error"):
            return
        around = tuple(self.ids(part.partition(":")[0]) for part in namespace)
        node = self.ids(payload["name"])
        if node is not None and node not in around[-1:]:  # without an item node, a region begins its own rounds
            steps.setdefault((around, "|".join(namespace), event["step"]), set()).add(node)

    def read(self, values: Mapping[str, Any], played: Played, plan: Plan) -> None:
        """Read the state after a turn."""
        raise NotImplementedError


def _by_graph(steps: Mapping[tuple[Any, ...], set[str]]) -> list[Any]:
    graphs: dict[tuple[Any, str], list[Any]] = {}
    for (around, namespace, _), nodes in steps.items():
        graphs.setdefault((around, namespace), []).append(sorted(nodes))
    return sorted(([list(around), order] for (around, _), order in graphs.items()), key=repr)


class Interpreted(Graph):
    """The graph of the canvas."""

    def __init__(self, plan: Plan, open_services: OpenServices) -> None:
        heard: list[Any] = []
        hidden = {CLOSING_NODE, *_hidden(plan)}

        def ids(name: str) -> str | None:
            id_ = node_id(name)
            return None if name in hidden or id_ in hidden else id_

        canvas = lower_plan(plan)
        super().__init__(canvas.graph, TurnContext(open_services(heard)), ids, heard)

    def read(self, values: Mapping[str, Any], played: Played, plan: Plan) -> None:
        played.outputs = {id_: entry for id_, entry in values.get("outputs", {}).items() if entry}
        played.variables, played.history = values.get("globals", {}), [list(e) for e in values.get("history", [])]
        played.messages = list(values.get("messages", []))
        if error := values.get("turn", {}).get("error"):
            played.error = str(error[3])
            played.messages.pop()


class Ejected(Graph):
    """The graph of the package."""

    def __init__(self, plan: Plan, package: EjectedPackage, module: ModuleType, open_services: OpenServices) -> None:
        heard: list[Any] = []
        self.names = {name: id_ for id_, name in package.names.items()}
        hidden = _hidden(plan)

        def ids(name: str) -> str | None:
            id_ = self.names.get(name)
            return None if id_ in hidden else id_

        super().__init__(module.build_graph().compile(), open_services(heard), ids, heard)

    def read(self, values: Mapping[str, Any], played: Played, plan: Plan) -> None:
        played.outputs = {id_: values[name] for name, id_ in self.names.items() if values.get(name)}
        played.variables, played.history = values.get("variables", {}), [list(e) for e in values.get("history", [])]
        played.messages = list(values.get("messages", []))


def _hidden(plan: Plan) -> set[str]:
    """Return the nodes that only begin rounds."""
    return {id_ for id_, node in plan.nodes.items() if node.spec.kind == "region_item"}


# Comparison


def load_package(package: EjectedPackage, folder: Path) -> ModuleType:
    """Write a package into a folder, and import its graph."""
    write_package(package, folder)
    os.environ.update(package.secrets)
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(f"{package.name}.graph")
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
            del sys.modules[name]


def write_package(package: EjectedPackage, folder: Path) -> None:
    """Write the files of a package."""
    for path, text in package.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


async def compare(
    plan: Plan, package: EjectedPackage, module: ModuleType, queries: Sequence[str], open_services: OpenServices
) -> list[str]:
    """Play the turns on both graphs; return what differs."""
    interpreted = Interpreted(plan, open_services)
    ejected = Ejected(plan, package, module, open_services)
    problems: list[str] = []
    for number, query in enumerate(queries):
        request = {"query": query, "inputs": dict(sample_answers(plan.form)), "user_id": "u"}
        expected = await asyncio.wait_for(interpreted.play(request, plan), LIMIT_S)
        actual = await asyncio.wait_for(ejected.play(request, plan), LIMIT_S)
        fields = ("error", "pauses") if expected.error else tuple(vars(expected))
        for name in sorted(fields, key="error".__ne__):
            before, after = getattr(expected, name), getattr(actual, name)
            if before != after:
                problems.append(f"turn {number}: {name}: {_first_difference(before, after)}")
    return problems


def _first_difference(before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        left, right = cast("dict[str, Any]", before), cast("dict[str, Any]", after)
        keys = [key for key in {**left, **right} if left.get(key, "missing") != right.get(key, "missing")]
        parts = (f"{key}: {left.get(key, 'missing')!r:.200} → {right.get(key, 'missing')!r:.200}" for key in keys[:2])
        return "; ".join(parts)
    if isinstance(before, list) and isinstance(after, list):
        pairs = list(zip(cast("list[Any]", before), cast("list[Any]", after), strict=False))
        for index, (first, second) in enumerate(pairs):
            if first != second:
                return f"[{index}] {first!r:.300} → {second!r:.300}"
    return f"{before!r:.400} → {after!r:.400}"


@dataclass
class Verdict:
    """The result for one canvas."""

    name: str
    state: str
    """``equal``, ``different``, ``unsupported`` or ``refused``."""
    lines: int = 0
    text: str = ""
    package: EjectedPackage | None = None


def judge(name: str, document: Any, queries: Sequence[str], open_services: OpenServices) -> Verdict:
    """Eject and compare one canvas."""
    plan, diagnostics = check_canvas(document, load_catalog())
    if plan is None:
        return Verdict(name, "refused", text=" ".join(sorted({d.code for d in diagnostics if d.severity == "error"})))
    try:
        package = eject_plan(plan, name="ejected_package", version="0")
    except CompileError as error:
        return Verdict(
            name, "unsupported", text="; ".join(f"{d.title or d.node}: {d.message}" for d in error.diagnostics)
        )
    lines = sum(text.count("\n") for path, text in package.files.items() if path.endswith(".py"))
    with tempfile.TemporaryDirectory() as folder:
        problems = asyncio.run(compare(plan, package, load_package(package, Path(folder)), queries, open_services))
    return Verdict(name, "different" if problems else "equal", lines, "; ".join(problems[:3]), package)


def judge_file(path: Path, queries: Sequence[str] = ("Where is my parcel?", "And then?")) -> Verdict:
    """Eject and compare the canvas in a file, with the demo model."""
    document = complete_params(json.loads(path.read_bytes()))
    with tempfile.TemporaryDirectory() as folder, new_database("sqlite", Path(folder)) as account:
        databases = open_databases(account)
        return judge(path.name, document, queries, demo_services(databases))


def judge_random(seed: int) -> Verdict:
    """Eject and compare a random canvas, with its scripted model."""
    source = RandomCanvas(seed)
    case = source.case(f"random {seed}")

    def open_services(heard: list[Any]) -> Services:
        model = build_model({"llm_script": source.script})
        model.requests = heard  # pyright: ignore[reportAttributeAccessIssue]
        return fake_services(models=OneModel(model))

    return judge(case["id"], case["dsl"], source.queries, open_services)


def judge_case(case: Case) -> Verdict:
    """Eject and compare the canvas of a recorded case, with its scripted model."""
    turns = case.data["turns"]
    script = [entry for turn in turns for entry in turn.get("llm_script", [])]

    def open_services(heard: list[Any]) -> Services:
        model = build_model({"llm_script": script})
        model.requests = heard  # pyright: ignore[reportAttributeAccessIssue]
        reports = WorkerReports(ReportSettings(system_fonts=False), NoWorkers())
        return fake_services(
            models=OneModel(model),
            http=HeardHttp(heard),
            knowledge=AnyKnowledge(),
            artifacts=NamedArtifacts(),
            reports=reports,
        )

    return judge(case.id, case.data["dsl"], [turn.get("query") or "" for turn in turns], open_services)


def check_packages(folder: Path, packages: Sequence[EjectedPackage]) -> bool:
    """Write packages into a folder, and have Ruff and Pyright check them. Return whether they are clean."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages:
        write_package(replace(package, files=format_files(package.files)), folder / package.name)
    roots = [{"root": package.name, "extraPaths": [str(ROOT)]} for package in packages]
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "executionEnvironments": roots}
    settings |= {"reportMissingTypeStubs": False, "reportUnknownMemberType": False}  # as in their pyproject.toml
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    python = sys.executable
    commands = [
        [python, "-m", "ruff", "format", "--check", "--quiet", str(folder)],
        [python, "-m", "ruff", "check", "--quiet", str(folder)],
        [python, "-m", "pyright", "--pythonpath", python, "-p", str(folder)],
    ]
    results = [subprocess.run(command, capture_output=True, text=True, check=False) for command in commands]
    for command, result in zip(commands, results, strict=True):
        line = (result.stdout.strip() or "clean").splitlines()[-1]
        sys.stdout.write(f"{' '.join(command[2:4])}: {result.returncode}, {line}\n")
    return not any(result.returncode for result in results)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Compare ejected packages with their canvases.")
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--random", type=int, default=0, help="how many random canvases")
    parser.add_argument("--seed", type=int, default=0, help="the first random canvas")
    parser.add_argument("--cases", type=Path, help="folder of recorded cases")
    parser.add_argument("--packages", type=Path, help="folder for the packages, which are then checked")
    arguments = parser.parse_args()
    files = [file for path in arguments.paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    jobs: list[Callable[[], Verdict]] = [partial(judge_file, file) for file in files]
    jobs += [partial(judge_case, case) for case in (read_cases(arguments.cases) if arguments.cases else ())]
    jobs += [partial(judge_random, arguments.seed + number) for number in range(arguments.random)]
    verdicts: list[Verdict] = []
    for job in jobs:
        verdicts.append(verdict := job())
        if len(verdicts) <= len(files) or verdict.state in ("different", "unsupported"):
            sys.stdout.write(f"{verdict.state:12} {verdict.lines:5}  {verdict.name}  {verdict.text}\n")
            sys.stdout.flush()
    states = ("equal", "different", "unsupported", "refused")
    counts = {state: sum(verdict.state == state for verdict in verdicts) for state in states}
    sys.stdout.write(", ".join(f"{count} {state}" for state, count in counts.items()) + "\n")
    packages = [replace_name(v.package, number) for number, v in enumerate(verdicts) if v.package is not None]
    is_clean = arguments.packages is None or check_packages(arguments.packages, packages)
    return 1 if counts["different"] or not is_clean else 0


def replace_name(package: EjectedPackage, number: int) -> EjectedPackage:
    """Return a package under another name, so that several fit into a folder."""
    name = f"{package.name}_{number}"
    pattern = re.compile(rf"\b{package.name}\b")
    files = {pattern.sub(name, path): pattern.sub(name, text) for path, text in package.files.items()}
    return replace(package, name=name, files=files)


if __name__ == "__main__":
    raise SystemExit(main())
