"""What a canvas needs from the settings: models, datasets, rerank models and keys. Missing ones are warnings.

They are not errors: the settings may differ where the canvas will run, and ``--model`` may replace its models.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.diagnostics import ADVICE, Diagnostic
from ragflow_lg.base.errors import RagflowLgError, SettingsError
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.spec import Requirement
from ragflow_lg.dsl_compiler import extend_pointer
from ragflow_lg.server.assembly.tenant_settings import find_section, is_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from ragflow_lg.server.settings import Settings


class _Need(NamedTuple):
    requirement: Requirement
    node: PlanNode
    """The node of the checked canvas that has the requirement, or whose tool or canvas has it."""
    pointer: str
    canvas: str
    """The canvas that the node runs and that has the requirement, or ``""``."""


def check_needs(plan: Plan, settings: Callable[[], Settings]) -> list[Diagnostic]:
    """Return a warning for each thing that the canvas, its tools and the canvases that it runs need and do not get.

    The settings are loaded only if there is such a need.
    """
    needs = list(_needs(plan))
    if not needs:
        return []
    checks = _Checks(settings())
    found: dict[Diagnostic, None] = {}
    for need in needs:
        kind, name = need.requirement.kind, need.requirement.name
        code, problem = checks.by_kind[kind](name)
        if not problem:
            continue
        message, _, hint = problem.partition(". ")
        message = f"{message.rstrip('.')}."
        if need.canvas:
            message = f"In the canvas {need.canvas}: {message}"
        hint = hint or ADVICE[code]
        found[Diagnostic(code, "warning", need.pointer, message, hint, need.node.id, need.node.title)] = None
    return list(found)


def _needs(plan: Plan) -> Iterator[_Need]:
    for node in plan.nodes.values():
        for part in node.with_tools():
            inside = ["obj", "params"] if part is node else ["params"]
            for requirement in part.spec.requires(part.params):
                pointer = extend_pointer(part.pointer, [*inside, *requirement.path])
                yield _Need(requirement, node, pointer, "")
            if part.canvas is not None:
                for inner in _needs(part.canvas.plan):
                    yield _Need(inner.requirement, node, part.pointer, part.canvas.plan.title or str(part.canvas.name))


class _Checks:
    """Finds what is wrong with each requirement; ``""`` if nothing is."""

    def __init__(self, settings: Settings) -> None:
        from ragflow_lg.adapters.chat.chat_models import ConfiguredModels

        self._settings = settings
        self._models = ConfiguredModels(settings.chat_settings())
        self._tools = settings.tool_settings
        self.by_kind: dict[str, Callable[[str], tuple[str, str]]] = {
            "model": lambda name: ("model-unavailable", self._check_model(name)),
            "dataset": lambda name: ("dataset-unknown", self._check_dataset(name)),
            "reranker": lambda name: ("reranker-unavailable", self._check_reranker(name)),
            "key": lambda name: ("key-missing", self._check_key(name)),
            "database": lambda name: ("account-missing", self._check_database(name)),
            "mail_server": lambda name: ("account-missing", self._check_mail_server(name)),
        }

    def _check_model(self, llm_id: str) -> str:
        try:
            self._models.model(llm_id)
        except SettingsError as error:
            return str(error)
        return ""

    def _check_dataset(self, name: str) -> str:
        """Check a dataset of the embedded knowledge base. Servers are not asked."""
        shared = self._shared_datasets()
        try:
            if self._settings.knowledge.url.startswith(("ragflow+", "elasticsearch+")):
                return "" if shared is None or shared else self._unshared_dataset(name)
            dataset = _find_dataset(self._settings, name)
        except RagflowLgError as error:
            return str(error)
        if dataset is not None and (shared is None or any(is_named(each, shared) for each in dataset)):
            return ""
        if shared is not None:
            return self._unshared_dataset(name)
        label = name[:200] if name.isprintable() else repr(name[:200])
        create = f"ragflow-lg kb create NAME --id {shlex.quote(label)}"
        return (
            f"The dataset {label!r} does not exist. Create it with `{create}` and `ragflow-lg kb add FOLDER --dataset "
            "NAME`, or set [knowledge] url to the RAGFlow server that has it."
        )

    def _shared_datasets(self) -> tuple[str, ...] | None:
        """Return the patterns for the datasets of the tenant to which the settings are restricted; None for all."""
        tenant = self._settings.tenant
        section = find_section(self._settings, tenant, "") if tenant else None
        return None if section is None else section.datasets

    def _unshared_dataset(self, name: str) -> str:
        tenant = self._settings.tenant
        return (
            f"The tenant {tenant!r} has no dataset {name[:200]!r}. Datasets are shared by name or id in datasets of "
            f'[tenants."{tenant}"].'
        )

    def _check_reranker(self, rerank_id: str) -> str:
        from ragflow_lg.adapters.knowledge.rerankers import find_reranker

        url = self._settings.knowledge.url
        if url.startswith("ragflow+"):
            return ""  # RAGFlow itself reranks
        try:
            section = self._settings.rerankers[find_reranker(rerank_id, self._settings.rerankers)]
        except SettingsError as error:
            return str(error)
        if section.api_key_env and section.key() is None:
            return f"The environment variable {section.api_key_env} with the key of {rerank_id!r} is not set. Set it."
        return ""

    def _check_database(self, name: str) -> str:
        if name in self._settings.sql.connections:
            return ""
        label = name[:80]
        return f"There is no database connection {label!r}. Add [sql.connections.{label}] to the settings."

    def _check_mail_server(self, name: str) -> str:
        if name in self._settings.email.servers:
            return ""
        label = name[:80]
        return f"There is no mail server {label!r}. Add [email.servers.{label}] to the settings."

    def _check_key(self, service: str) -> str:
        if self._tools.key(service):
            return ""
        variable = next((s.api_key_env for name, s in self._settings.tools.items() if name.lower() == service), "")
        if variable:
            return f"The environment variable {variable} with the key of {service} is not set. Set it."
        return (
            f"There is no API key for {service}. Set [tools.{service}] api_key_env in the settings to the name of the "
            "variable that contains the key, or api_key in the canvas."
        )


def _find_dataset(settings: Settings, name: str) -> tuple[str, str] | None:
    """Return the id and the name of a dataset of the embedded knowledge base, or None."""
    from ragflow_lg.adapters.knowledge.knowledge_database import KnowledgeDatabase
    from ragflow_lg.adapters.knowledge.knowledge_records import find_dataset
    from ragflow_lg.server.assembly.knowledge_sources import embedded_path

    database = KnowledgeDatabase(embedded_path(settings.knowledge.url))
    if not database.exists:
        return None
    try:
        with database.reading() as connection:
            found = find_dataset(connection, name)
            return None if found is None else (found.id, found.name)
    finally:
        database.close()
