"""Opens the sandbox for CodeExec that the settings describe."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.adapters.code.sandbox_choice import ChosenSandbox
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.tasks import running
from ragflow_lg.server.assembly.knowledge_sources import endpoint_host

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.code import CodeSandbox
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

    code = settings.code.settings
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


def finding_sandbox(code: CodeSandbox) -> AbstractAsyncContextManager[None]:
    """Look for the sandbox inside the context, so that the first program does not wait for it and the log names it."""
    return running(code.find, "find the sandbox") if isinstance(code, ChosenSandbox) else nullcontext()
