"""The sandbox that the settings choose: found and tried once, when it is first needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.adapters.code.bubblewrap import Bubblewrap, find_bubblewrap
from ragflow_lg.adapters.code.code_settings import CodeSettings
from ragflow_lg.adapters.code.deno import Deno, find_deno
from ragflow_lg.adapters.code.http_sandbox import HttpSandbox
from ragflow_lg.adapters.code.pyodide_folder import VERSION, default_folder
from ragflow_lg.adapters.workers.slots import Slots
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.services.code import CodeRequest, CodeResult, CodeSandbox, Language, NoSandbox
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.workers import NoWorkers, Workers

logger = logging.getLogger(__name__)

_PROBES: Mapping[Language, str] = {
    "python": "import os\ndef main():\n    return [6 * 7, os.path.exists('/etc/passwd'), os.path.exists('/proc/1')]\n",
    "javascript": (
        "const { existsSync } = require('fs');\n"
        "function main() { return [6 * 7, existsSync('/etc/passwd'), existsSync('/proc/1')]; }"
    ),
}
_PROBED = [42, False, False]
_ADVICE = (
    "One is enough: install bubblewrap (Linux), for example with `apt install bubblewrap`, or Deno, or set url in the "
    "section [code] of the settings to the address of a sandbox service."
)
_HINT = "`ragflow-lg doctor` shows which sandbox is used."


class FoundSandbox(Struct, frozen=True):
    """A sandbox that works, or one that refuses everything; and a description for the operator."""

    sandbox: CodeSandbox
    description: str
    is_working: bool = True
    advice: str = ""
    """What to do if programs of one language are refused."""

    async def check(self) -> None:
        """Check a service again, which may have stopped since.

        Raises:
            ServiceError: if it does not answer.
        """
        if isinstance(self.sandbox, HttpSandbox):
            await self.sandbox.check_health()


async def find_sandbox(settings: CodeSettings, http: HttpClient, workers: Workers) -> FoundSandbox:
    """Return the chosen sandbox. ``auto`` takes the service if its address is set, then Bubblewrap, then Deno.

    If it does not work, every program is refused with the reason. There is no other way to run one.
    """
    provider = settings.provider
    if provider == "refuse":
        return _refuse('CodeExec is switched off: provider is "refuse" in the section [code] of the settings.')
    if provider == "http" or (provider == "auto" and settings.url):
        finders = [lambda: _find_service(settings, http, workers)]
    else:
        local = {"bubblewrap": _find_bubblewrap, "deno": _find_deno}
        finders = [partial(find, settings, workers) for name, find in local.items() if provider in ("auto", name)]
    reasons: list[str] = []
    for find in finders:
        try:
            found = await find()
        except RagflowLgError as error:
            reasons.append(f"{str(error).rstrip('.')}.")
        else:
            return replace(found, advice=" ".join([found.advice, *reasons])) if found.advice else found
    return _refuse(f"CodeExec has no sandbox. {' '.join(reasons)} {_ADVICE}")


def _refuse(reason: str) -> FoundSandbox:
    return FoundSandbox(NoSandbox(f"{reason} {_HINT}"), reason, is_working=False)


async def _find_service(settings: CodeSettings, http: HttpClient, workers: Workers) -> FoundSandbox:
    if not settings.url:
        raise SettingsError("The provider http needs the setting url.")
    sandbox = HttpSandbox(settings.url, http, settings.limits, key=settings.key, workers=workers)
    return FoundSandbox(sandbox, f"the service at {settings.url}")  # each program asks whether it is healthy


async def _find_bubblewrap(settings: CodeSettings, workers: Workers) -> FoundSandbox:
    program = find_bubblewrap(settings.bubblewrap)
    sandbox = Bubblewrap(program, settings.limits, settings.interpreters, workers)
    await _probe(sandbox, "python", "Bubblewrap")
    advice, python = "", f"Python ({settings.interpreters.path('python')})"
    try:
        javascript = f"JavaScript ({settings.interpreters.path('javascript')})"
    except SettingsError as error:
        javascript, advice = "no JavaScript", str(error)
    return FoundSandbox(sandbox, f"Bubblewrap ({program}): {python}, {javascript}", advice=advice)


async def _find_deno(settings: CodeSettings, workers: Workers) -> FoundSandbox:
    """Try Deno, first with JavaScript. Without Pyodide, each Python program is refused with the reason."""
    program = find_deno(settings.deno)
    advice, python = "", f"Python (Pyodide {VERSION})"
    folder = Path(settings.pyodide) if settings.pyodide else default_folder()
    sandbox = Deno(program, folder, settings.limits, workers)
    await _probe(sandbox, "javascript", "Deno")
    try:
        await sandbox.check_python()
        await _probe(sandbox, "python", "Deno")
    except SettingsError as error:
        python, advice = "no Python", str(error)
    return FoundSandbox(sandbox, f"Deno ({program}): JavaScript, {python}", advice=advice)


async def _probe(sandbox: CodeSandbox, language: Language, name: str) -> None:
    """Run a program that looks for files of the host.

    Raises:
        ServiceError: if it does not run, or sees any.
    """
    result = await sandbox.run(CodeRequest(language, _PROBES[language]))
    if result.value != _PROBED:
        raise ServiceError(f"{name} does not isolate programs on this system: {result.stderr[:300] or result.value}")


class ChosenSandbox:
    """A `ragflow_lg.services.code.CodeSandbox` that finds the chosen one, and limits how many programs run at once."""

    def __init__(self, settings: CodeSettings, http: HttpClient, workers: Workers | None = None) -> None:
        self._find: Callable[[], asyncio.Task[FoundSandbox]] = lambda: asyncio.create_task(
            find_sandbox(settings, http, workers or NoWorkers()), name="find the sandbox"
        )
        self._found: asyncio.Task[FoundSandbox] | None = None
        self._slots = Slots(settings.concurrency, settings.queue, "for a sandbox")

    async def find(self) -> FoundSandbox:
        """Return the sandbox. The first call looks for it."""
        if self._found is None:
            self._found = self._find()
            found = await asyncio.shield(self._found)
            logger.info("CodeExec: %s", f"{found.description}. {found.advice}".removesuffix(". "))
        return await asyncio.shield(self._found)

    async def aclose(self) -> None:
        """End the search for a sandbox."""
        if self._found is not None:
            self._found.cancel()
            await asyncio.gather(self._found, return_exceptions=True)

    async def run(self, request: CodeRequest) -> CodeResult:
        """Run a program as soon as a slot is free."""
        found = await self.find()
        if isinstance(found.sandbox, NoSandbox):
            return await found.sandbox.run(request)
        async with self._slots.slot():
            return await found.sandbox.run(request)
