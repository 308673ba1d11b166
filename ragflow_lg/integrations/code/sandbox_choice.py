"""The sandbox that the settings choose: found and tried once, when it is first needed."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from msgspec import Struct

from ragflow_lg.adapters.workers.slots import Slots
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.integrations.code.bubblewrap import Bubblewrap, find_bubblewrap
from ragflow_lg.integrations.code.code_settings import CodeSection
from ragflow_lg.integrations.code.http_sandbox import HttpSandbox
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult, CodeSandbox
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.workers import NoWorkers, Workers

logger = logging.getLogger(__name__)

QUEUE = 100
"""How many programs may wait for a slot."""

_PROBE = "import os\ndef main():\n    return [6 * 7, os.path.exists('/etc/passwd'), os.path.exists('/proc/1')]\n"
"""A program that looks for files of the host."""

_PROBED = [42, False, False]
_ADVICE = (
    "There are two ways: install bubblewrap (Linux), for example with `apt install bubblewrap`, or set url in the "
    "section [code] of the settings to the address of a sandbox service: RAGFlow's, or `ragflow-lg sandbox serve` on a "
    "machine with bubblewrap."
)
_HINT = "`ragflow-lg doctor` shows which sandbox is used."


class FoundSandbox(Struct, frozen=True):
    """A sandbox that works, or None if every program is refused; and a description for the operator."""

    sandbox: CodeSandbox | None
    description: str
    advice: str = ""
    """What to do if programs of one language are refused."""

    @property
    def is_working(self) -> bool:
        """Whether there is a sandbox."""
        return self.sandbox is not None

    async def check(self) -> None:
        """Check a service again, which may have stopped since.

        Raises:
            ServiceError: if it does not answer.
        """
        if isinstance(self.sandbox, HttpSandbox):
            await self.sandbox.check_health()


async def find_sandbox(settings: CodeSection, http: HttpClient, workers: Workers) -> FoundSandbox:
    """Return the chosen sandbox. ``auto`` takes the service if its address is set, otherwise Bubblewrap.

    If it does not work, every program is refused with the reason. There is no other way to run one.
    """
    provider = settings.provider
    if provider == "refuse":
        reason = 'CodeExec is switched off: provider is "refuse" in the section [code] of the settings.'
        return FoundSandbox(None, reason)
    try:
        if provider == "http" or (provider == "auto" and settings.url):
            sandbox = HttpSandbox(settings.url, http, settings.limits, key=settings.api_key.read(), workers=workers)
            return FoundSandbox(sandbox, f"the service at {settings.url}")  # each program asks whether it is healthy
        return await _find_bubblewrap(settings, workers)
    except RagflowLgError as error:
        return FoundSandbox(None, f"CodeExec has no sandbox. {str(error).rstrip('.')}. {_ADVICE}")


async def _find_bubblewrap(settings: CodeSection, workers: Workers) -> FoundSandbox:
    program = find_bubblewrap(settings.bubblewrap)
    sandbox = Bubblewrap(program, settings.limits, settings.interpreters, workers)
    result = await sandbox.run(CodeRequest("python", _PROBE))
    if result.value != _PROBED:
        shown = result.stderr[:300] or result.value
        raise ServiceError(f"Bubblewrap does not isolate programs on this system: {shown}")
    advice, python = "", f"Python ({settings.interpreters.path('python')})"
    try:
        javascript = f"JavaScript ({settings.interpreters.path('javascript')})"
    except SettingsError as error:
        javascript, advice = "no JavaScript", str(error)
    return FoundSandbox(sandbox, f"Bubblewrap ({program}): {python}, {javascript}", advice=advice)


class ChosenSandbox:
    """A `CodeSandbox` that finds the chosen one, and limits how many programs run at once."""

    def __init__(self, settings: CodeSection, http: HttpClient, workers: Workers | None = None) -> None:
        self._find = partial(find_sandbox, settings, http, workers or NoWorkers())
        self._found: asyncio.Task[FoundSandbox] | None = None
        self._slots = Slots(settings.concurrency, QUEUE, "for a sandbox")

    async def warm_up(self) -> None:
        """Look for the sandbox, so that the first program does not wait for it and the log names it."""
        await self.find()

    async def find(self) -> FoundSandbox:
        """Return the sandbox. The first call looks for it."""
        if self._found is None:
            self._found = asyncio.create_task(self._find(), name="find the sandbox")
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
        if found.sandbox is None:
            raise SettingsError(f"{found.description} {_HINT}")
        async with self._slots.slot():
            return await found.sandbox.run(request)
