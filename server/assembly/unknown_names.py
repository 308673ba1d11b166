"""Names in the settings that stand for nothing, which are probably misspelled."""

from __future__ import annotations

import logging
from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ragflow_lg.adapters.knowledge.model_endpoint import find_model_id
from ragflow_lg.adapters.known_providers import PROVIDERS, provider_of_model
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.server.assembly.library import catalog

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

logger = logging.getLogger(__name__)


def report_unknown_names(settings: Settings) -> None:
    """Log a warning for each name. This loads all tools."""
    for result in find_unknown_names(settings):
        logger.warning("%s%s. %s", result.what[0].upper(), result.what[1:], result.advice)


def find_unknown_names(settings: Settings) -> list[CheckResult]:
    """Return the sections of tools that no tool uses, and the names that the lists of tenants have from nowhere."""
    return [*_find_tools(settings), *_find_unshared(settings)]


def _find_tools(settings: Settings) -> list[CheckResult]:
    """Return the sections ``[tools.NAME]`` that no tool uses."""
    services = {spec.tool.service.section for spec in catalog() if spec.tool is not None and spec.tool.service}
    results: list[CheckResult] = []
    for name in settings.tools:
        if name.lower() not in services:
            near = get_close_matches(name.lower(), services, n=1)
            other = "`ragflow-lg components NAME` shows the section of a tool."
            advice = f"Did you mean [tools.{near[0]}]?" if near else other
            results.append(CheckResult(False, f"no tool uses the section [tools.{name}]", advice))
    return results


def _find_unshared(settings: Settings) -> list[CheckResult]:
    """Return the names in ``[tenants.NAME]`` that the settings do not describe. Datasets are not in the settings."""
    known: dict[str, Collection[str]] = {
        "providers": (*settings.providers, *PROVIDERS),
        "rerankers": settings.rerankers,
        "speech": settings.speech,
        "memories": settings.memories,
        "mcp": settings.mcp,
        "sql": settings.sql.connections,
        "email": settings.email.servers,
        "tools": settings.tools,
        "canvases": settings.canvases,
    }
    results: list[CheckResult] = []
    for tenant, section in settings.tenants.items():
        for field, names in known.items():
            for name in getattr(section, field):
                if not _is_known(field, name, names):
                    what = f'{field} of [tenants."{tenant}"] names {name!r}, which is nowhere'
                    results.append(CheckResult(False, what, _advise(name, names)))
    return results


def _is_known(field: str, name: str, known: Collection[str]) -> bool:
    if any(character in name for character in "*?["):  # a pattern may be for what comes later
        return True
    if field in ("providers", "tools"):
        return name.lower() in {each.lower() for each in known}
    if field == "rerankers":  # a canvas appends the provider, and known providers need no section
        return bool(find_model_id(name, known) or provider_of_model(name))
    return name in known


def _advise(name: str, known: Collection[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f"Did you mean {by_lower[near[0]]!r}?" if near else "Correct or remove it."
