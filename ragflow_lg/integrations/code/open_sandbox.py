"""Opens the sandbox for CodeExec that the settings describe, and says which one it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.adapters.model_endpoint import endpoint_host
from ragflow_lg.base.errors import RagflowLgError, SettingsError
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.integrations.code.code_settings import CodeSection
from ragflow_lg.integrations.code.sandbox_choice import ChosenSandbox
from ragflow_lg.services.workers import NoWorkers

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.workers import Workers


@asynccontextmanager
async def open_sandbox(
    settings: Settings, workers: Workers, *, is_local: bool = False
) -> AsyncGenerator[ChosenSandbox]:
    """Open the sandbox. Its client can reach only the service in the settings, wherever that is.

    ``workers`` read what programs return. With ``is_local``, the settings must not choose a service.

    Raises:
        SettingsError: if they do.
    """
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient

    code = settings.section(CodeSection)
    if is_local and (code.provider == "http" or code.url):
        raise SettingsError(
            "A sandbox service cannot use another one: remove url from the section [code] of its settings."
        )
    limits = code.limits
    max_bytes = 2 * (limits.artifacts * limits.artifact_bytes + limits.result_bytes + limits.output_bytes)
    allow = (endpoint_host(code.url),) if code.url else ()
    rules = replace(settings.http_settings, allow=allow, max_response_bytes=max_bytes)
    async with aclosing(GuardedHttpClient(rules)) as http, aclosing(ChosenSandbox(code, http, workers)) as sandbox:
        yield sandbox


@asynccontextmanager
async def open_for_runs(settings: Settings, services: Services) -> AsyncGenerator[ChosenSandbox]:
    """Open the sandbox with the workers of the services."""
    async with open_sandbox(settings, services.workers) as sandbox:
        yield sandbox


async def probe_sandbox(settings: Settings) -> list[CheckResult]:
    """Report where CodeExec runs programs. Having no sandbox is a failure only if the settings choose one."""
    async with open_sandbox(settings, NoWorkers()) as chosen:
        found = await chosen.find()
        try:
            await found.check()
        except RagflowLgError as error:
            return [CheckResult(False, "the sandbox for CodeExec cannot be used", str(error))]
    if found.is_working:
        return [CheckResult(True, f"CodeExec uses {found.description}", found.advice)]
    is_intended = settings.section(CodeSection).provider in ("auto", "refuse")
    return [CheckResult(is_intended, "CodeExec refuses all programs", found.description)]
