"""Checks of what the settings describe: what is stored where, models, installed packages, integrations."""

from __future__ import annotations

import shlex
from contextlib import aclosing
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.component.integration import find_integrations

if TYPE_CHECKING:
    from ragflow_lg.component.registry import Registry
    from ragflow_lg.server.settings import Settings


def probe_packages(registry: Registry) -> list[CheckResult]:
    """Report components and tools from installed packages that cannot be loaded."""
    return [CheckResult(False, f"{broken.name} cannot be loaded", str(broken.error)) for broken in registry.broken]


def probe_models(settings: Settings) -> list[CheckResult]:
    """Check the default model, and report missing packages, keys and passwords."""
    from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
    from ragflow_lg.server.assembly.canvas_needs import NO_KEY, answers_as_demo
    from ragflow_lg.server.settings.secret import missing_secrets

    chat = settings.chat_settings()
    try:
        ConfiguredModels(chat).model("")
        advice = NO_KEY if answers_as_demo(settings) and not settings.override_model else ""
        results = [CheckResult(True, f"the default model is {chat.default_model}", advice)]
    except RagflowLgError as error:
        results = [CheckResult(False, f"the default model {chat.default_model} cannot be used", str(error))]
    results += _probe_families(settings)
    for place, problem in missing_secrets(settings):
        results.append(CheckResult(False, f"{place} is missing: {problem}", f"Put it there, or correct {place}."))
    return results


async def probe_abilities(settings: Settings) -> list[CheckResult]:
    """Report what the server of the default model tells about it, and the settings do not say."""
    from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
    from ragflow_lg.adapters.chat.openai_chat import OpenAIChat

    async with aclosing(ConfiguredModels(settings.chat_settings())) as models:
        try:
            model = models.model("")
        except RagflowLgError:  # `probe_models` reports it
            return []
        if not isinstance(model, OpenAIChat) or not str(told := await model.learn()):
            return []
    advice = f"To keep this, set {model.setting(', '.join(told.settings))} in the settings."
    return [CheckResult(True, f"{model.name}: {told}", advice)]


def _probe_families(settings: Settings) -> list[CheckResult]:
    """Report providers whose packages are not installed, which is a failure only if the settings name them."""
    from ragflow_lg.adapters.model_families.families import FAMILIES, missing_packages
    from ragflow_lg.server.assembly.model_list import find_family
    from ragflow_lg.server.settings.dotenv_file import find_untrusted

    chat = settings.chat_settings()
    results: list[CheckResult] = []
    for name in dict.fromkeys([*chat.providers, *chat.known_providers]):
        family = find_family(name, chat)
        if family in FAMILIES and (missing := missing_packages(family)):
            results.append(CheckResult(name not in chat.providers, f"models of {name} cannot be used", missing))
    if unused := find_untrusted():
        advice = f"If its variables are yours, trust the folder: ragflow-lg trust {shlex.quote(str(unused.parent))}"
        results.append(CheckResult(True, f"{unused} is not read, because the folder is not trusted", advice))
    return results


async def probe_integrations(settings: Settings) -> dict[str, list[CheckResult]]:
    """Return what each integration reports. A probe that fails is a failure."""
    results: dict[str, list[CheckResult]] = {}
    for name, integration in find_integrations().integrations.items():
        if integration.probe:
            try:
                results[name] = await integration.load(integration.probe)(settings)
            except Exception as error:  # noqa: BLE001 - third-party code may raise anything
                found = error if isinstance(error, RagflowLgError) else integration.blame(integration.probe, error)
                results[name] = [CheckResult(False, f"the integration {name} cannot be checked", str(found))]
    return results


def probe_tool_keys(settings: Settings) -> list[CheckResult]:
    """Report which tools have a key in the settings. `probe_models` reports variables that are not set."""
    named = sorted(name for name, section in settings.tools.items() if section.api_key.read())
    return [CheckResult(True, f"the settings contain keys for {', '.join(named)}")] if named else []


def _probe_keys(settings: Settings) -> list[CheckResult]:
    """Return which key encrypts, if one does, or what is wrong with the keys in the settings."""
    from ragflow_lg.checkpoints.key_ring import make_key_ring

    try:
        keys = make_key_ring(settings.store_options["keys"])
    except RagflowLgError as error:
        return [CheckResult(False, "sessions cannot be encrypted", str(error))]
    return [CheckResult(True, f"sessions are encrypted with the key {keys.current!r}")] if keys is not None else []


async def check_health(settings: Settings, checkpoint: str = "") -> dict[str, list[CheckResult]]:
    """Return the findings of all checks by what they are about. ``checkpoint`` replaces the store of the settings."""
    from ragflow_lg.checkpoints.backends import probe_store
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.assembly.server_probe import probe_server
    from ragflow_lg.server.assembly.unknown_names import find_unknown_names

    return {
        "store": await probe_store(checkpoint or settings.checkpoints, ttl_s=settings.checkpoint_ttl_s),
        "encryption": _probe_keys(settings),
        "server": await probe_server(settings),
        "models": [*probe_models(settings), *await probe_abilities(settings)],
        "packages": probe_packages(catalog()),
        "tools": probe_tool_keys(settings),
        "settings": find_unknown_names(settings),
        **await probe_integrations(settings),
    }
