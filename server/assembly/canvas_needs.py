"""What a canvas needs from the settings: models, datasets, rerank models and keys. Missing ones are warnings.

They are not errors: the settings may differ where the canvas will run, and ``--model`` may replace its models.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from ragflow_lg.base.diagnostics import ADVICE, Diagnostic, Severity
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.component.integration import find_integrations, need_kinds
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.spec import Requirement
from ragflow_lg.dsl_compiler import extend_pointer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ragflow_lg.component.integration import Integration, NeedKind
    from ragflow_lg.server.settings import Settings


LABELS = {
    "model": "model",
    "key": "API key of",
    "mcp_server": "MCP server",
    "canvas": "canvas",
    "package": "package",
    "address": "address",
    "parameter": "parameter",
}
"""The kinds of the core, in the order in which they are listed. Those of integrations follow."""


OWNERS = {
    "dataset": ("knowledge", "dataset", "dataset-unknown"),
    "memory": ("memories", "memory", "memory-unknown"),
    "reranker": ("knowledge", "rerank model", "reranker-unavailable"),
    "search_option": ("knowledge", "search option", "params-unsupported"),
    "speech": ("speech", "speech model", "model-unavailable"),
}
"""The integrations that check what components of the core need; the labels and diagnostics if they are missing."""


def need_labels() -> dict[str, str]:
    """Return all kinds in words."""
    owned = {kind: label for kind, (_, label, _) in OWNERS.items()}
    return owned | LABELS | {kind: need.label for kind, need in need_kinds().items()}


UNSET = {"account-missing", "dataset-unknown", "memory-unknown", "webhook-closed"}
"""The codes of findings about parameters that lack what a canvas needs."""


class Need(NamedTuple):
    """Something that a canvas needs, and whether the settings have it."""

    kind: str
    name: str
    """The id of the model or dataset, the name of the service, connection or server, or the address."""
    users: tuple[str, ...]
    """The titles of the nodes that need it, or their ids."""
    state: Literal["present", "missing", "not checked", "demo"]
    problem: str = ""
    """What is missing, and what to do."""
    code: str = ""
    """The code of a diagnostic that says the same."""
    node: str = ""
    """The id of the node whose parameter is empty."""


class _Use(NamedTuple):
    requirement: Requirement
    node: PlanNode
    """The node of the checked canvas that has the requirement, or whose tool or canvas has it."""
    pointer: str
    canvas: str
    """The canvas that the node runs and that has the requirement, or ``""``."""


def check_needs(plan: Plan, settings: Callable[[], Settings], severity: Severity = "warning") -> list[Diagnostic]:
    """Return a diagnostic for each thing that the canvas, its tools and the canvases that it runs need and do not get.

    The settings are loaded only if there is such a need.
    """
    uses = list(_uses(plan))
    if not uses:
        return []
    checks = _Checks(settings())
    found: dict[Diagnostic, None] = {}
    for use in uses:
        kind, name = use.requirement.kind, use.requirement.name
        code, problem = checks.by_kind[kind](name)
        if not problem:
            continue
        message, _, hint = problem.partition(". ")
        message = f"{message.rstrip('.')}."
        if use.canvas:
            message = f"In the canvas {use.canvas}: {message}"
        hint = hint or ADVICE[code]
        found[Diagnostic(code, severity, use.pointer, message, hint, use.node.id, use.node.title)] = None
    return list(found)


def list_needs(plan: Plan, settings: Settings) -> tuple[Need, ...]:
    """Return everything that a canvas, its tools and the canvases that it runs need from outside, each thing once."""
    checks = _Checks(settings)
    users: dict[tuple[str, str], dict[str, None]] = {}
    for use in _uses(plan):
        users.setdefault((use.requirement.kind, use.requirement.name), {})[use.node.title or use.node.id] = None
    for kind, name, node in _other_needs(plan, settings):
        users.setdefault((kind, name), {})[node.title or node.id] = None
    needs = [*_unset(plan)]
    has_no_key = answers_as_demo(settings)
    for (kind, name), titles in users.items():
        if has_no_key and (kind, name) == ("model", ""):
            needs.append(Need(kind, name, tuple(titles), "demo", NO_KEY))
        elif check := checks.by_kind.get(kind):
            code, problem = check(name)
            needs.append(Need(kind, name, tuple(titles), "missing" if problem else "present", problem, code))
        else:
            needs.append(Need(kind, name, tuple(titles), "not checked" if kind == "address" else "present"))
    ranks = {kind: rank for rank, kind in enumerate(LABELS)}
    return tuple(sorted(needs, key=lambda need: (need.state != "missing", ranks.get(need.kind, len(ranks)))))


NO_KEY = (
    "No key was found, so the demo model answers. Set OPENAI_API_KEY or the variable of another provider "
    "(`ragflow-lg models providers`), or try --model demo, which has samples for what is missing."
)
"""The advice where the demo model answers although nobody has asked for it."""


def answers_as_demo(settings: Settings) -> bool:
    """Return whether the demo model is the default model only because the settings name none, and no key is found."""
    from ragflow_lg.adapters.chat.chat_settings import is_demo

    return not settings.default_model and is_demo(settings.chat_settings().default_model)


def describe_missing(plan: Plan, settings: Settings, *, has_model: bool = False) -> str:
    """Return a text about everything that a canvas needs and does not get, or ``""``.

    ``has_model`` says that one model replaces all models of the canvas.
    """
    if not any(True for _ in chain(_uses(plan), _unset(plan))):
        return ""
    needs = [need for need in list_needs(plan, settings) if not (has_model and need.kind == "model")]
    lines = [f"  {', '.join(need.users)}: {need.problem}" for need in needs if need.state == "missing"]
    signs = [f"Demo: {need.problem}" for need in needs if need.state == "demo"]
    return "\n".join([*signs, *(["Something that the canvas needs is missing:", *lines] if lines else [])])


def _unset(plan: Plan) -> Iterator[Need]:
    """Yield the parameters that lack something, so that the node does nothing or fails, or nobody can start it."""
    for node in plan.nodes.values():
        for part in node.with_tools():
            for code, _, path, message, hint in part.spec.lint(part.params):
                if code in UNSET:
                    problem = f"{message} {hint}"
                    yield Need("parameter", str(path[0]), (node.title or node.id,), "missing", problem, code, node.id)
            if part.canvas is not None:
                yield from (need._replace(node="") for need in _unset(part.canvas.plan))


def _other_needs(plan: Plan, settings: Settings) -> Iterator[tuple[str, str, PlanNode]]:
    """Yield the MCP servers, canvases, packages and addresses. A canvas without them would not have been planned."""
    for node in plan.nodes.values():
        for part in node.with_tools():
            for tool in part.spec.server_tools(part.params):
                yield "mcp_server", tool.server, node
            service = part.spec.tool.service if part.spec.tool else None
            if service is not None:
                own = next((own for name, own in settings.tools.items() if name.lower() == service.section), None)
                yield "address", (own.endpoint if own else "") or service.address, node
            url = str(getattr(getattr(part.params, "url", None), "source", ""))
            if url.startswith(("http://", "https://")) and "{" not in url.split("/")[2]:
                yield "address", "/".join(url.split("/")[:3]), node
            package = str(getattr(part.spec.run, "__module__", "")).partition(".")[0]
            if package and package != "ragflow_lg":
                yield "package", package, node
            if part.canvas is not None:
                yield "canvas", part.canvas.plan.title or str(part.canvas.name), node
                for kind, name, _ in _other_needs(part.canvas.plan, settings):
                    yield kind, name, node


def _uses(plan: Plan) -> Iterator[_Use]:
    for node in plan.nodes.values():
        for part in node.with_tools():
            for requirement in part.spec.requires(part.params):
                pointer = extend_pointer(part.params_pointer, requirement.path)
                yield _Use(requirement, node, pointer, "")
            if part.canvas is not None:
                for inner in _uses(part.canvas.plan):
                    yield _Use(inner.requirement, node, part.pointer, part.canvas.plan.title or str(part.canvas.name))


class _Checks:
    """Finds what is wrong with each requirement; ``""`` if nothing is."""

    def __init__(self, settings: Settings) -> None:
        from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels

        self._settings = settings
        self._models = ConfiguredModels(settings.chat_settings())
        self._tools = settings.tool_settings
        self.by_kind: dict[str, Callable[[str], tuple[str, str]]] = {
            "model": lambda name: ("model-unavailable", self._check_model(name)),
            "key": lambda name: ("key-missing", self._check_key(name)),
        }
        found = find_integrations()
        for kind, (owner, _, code) in OWNERS.items():
            self.by_kind[kind] = lambda _, code=code, owner=owner: (
                code,
                str(found.missing.get(owner, f"The integration {owner} is not installed.")),
            )
        for integration in found.integrations.values():
            for kind, need in integration.needs.items():
                self.by_kind[kind] = partial(_check_with, integration, need, settings)

    def _check_model(self, llm_id: str) -> str:
        try:
            self._models.model(llm_id)
        except SettingsError as error:
            return str(error)
        return ""

    def _check_key(self, service: str) -> str:
        if self._tools.key(service):
            return ""
        problems = (s.api_key.problem() for name, s in self._settings.tools.items() if name.lower() == service)
        advice = f"Set [tools.{service}] api_key in the settings, or api_key in the canvas."
        return _missing_key(service, next(problems, "")) or f"There is no API key for {service}. {advice}"


def _missing_key(what: str, problem: str) -> str:
    return f"The key of {what} is missing: {problem}. Put it there." if problem else ""


def _check_with(integration: Integration, need: NeedKind, settings: Settings, name: str) -> tuple[str, str]:
    return need.code, integration.load(need.find_problem)(settings, name)
