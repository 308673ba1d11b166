"""Names in the settings that stand for nothing, which are probably misspelled."""

from __future__ import annotations

import logging
from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.adapters.known_providers import PROVIDERS, provider_of_model
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.settings.sections import EndpointSection

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
    known = {"models": [*settings.providers, *PROVIDERS], "keys": ["http.allow"]}
    for section, value in settings.shared.items():
        is_table = isinstance(value, dict)
        entries = cast("dict[str, Any]", value) if is_table else getattr(value, value.shared, None)
        known["keys"] += [section] if entries is None else []
        for name, entry in (entries or {}).items():
            if isinstance(entry, EndpointSection):
                known["models"].append(name)
            else:
                known["keys"].append(f"{section}.{name}")
    results: list[CheckResult] = []
    for tenant, section in settings.tenants.items():
        for field, names in known.items():
            for name in getattr(section, field) or ():
                if not _is_known(name, names):
                    what = f'{field} of [tenants."{tenant}"] names {name!r}, which is nowhere'
                    results.append(CheckResult(False, what, _advise(name, names)))
    return results


def _is_known(name: str, known: Collection[str]) -> bool:
    if any(character in name for character in "*?[") or name.startswith("datasets."):
        return True  # a pattern may be for what comes later
    names = {name.lower(), name.lower().rpartition("@")[2]}  # a model can be named with its provider
    return not names.isdisjoint(each.lower() for each in known) or provider_of_model(name) is not None


def _advise(name: str, known: Collection[str]) -> str:
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f"Did you mean {by_lower[near[0]]!r}?" if near else "Correct or remove it."
