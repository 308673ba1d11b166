"""``ragflow-lg doctor``: check the session store, MCP servers and installed packages."""

from __future__ import annotations

import sys

import typer

from ragflow_lg.server.cli.options import Checkpoint, SettingsFile
from ragflow_lg.server.cli.terminal import printable

__all__ = ["doctor"]


def doctor(settings: SettingsFile = None, checkpoint: Checkpoint = "") -> None:
    """Check the session store, MCP servers and packages.

    Checks connection, modules, version, permissions, expiry and clock of the store, with advice for every problem.
    Also lists the tools of the configured MCP servers, and reports installed packages whose components do not load.

    Exit code 0: everything is fine. 1: something needs fixing.

    Example: ragflow-lg doctor --checkpoint redis://localhost:6379
    """
    import asyncio

    from ragflow_lg.checkpoints.backends import probe_store
    from ragflow_lg.checkpoints.check_result import CheckResult
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.assembly.tool_probe import probe_packages, probe_tools
    from ragflow_lg.server.settings import load_settings

    config = load_settings(settings)
    url = checkpoint or config.checkpoints

    async def examine() -> list[CheckResult]:
        tools = [*probe_packages(catalog()), *await probe_tools(config)]
        return [*await probe_store(url, ttl_s=config.checkpoint_ttl_s), *tools]

    findings = asyncio.run(examine())
    for finding in findings:
        sys.stdout.write(printable(f"{'ok  ' if finding.is_well else 'FAIL'}  {finding.what}\n"))
        if finding.advice:
            sys.stdout.write(printable(f"      → {finding.advice}\n"))
    raise typer.Exit(0 if all(finding.is_well for finding in findings) else 1)
