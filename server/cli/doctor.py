"""``ragflow-lg doctor``: is the store of sessions fit for use, and do the MCP servers answer?"""

from __future__ import annotations

import sys

import typer

from ragflow_lg.server.cli.options import Checkpoint, SettingsFile
from ragflow_lg.server.cli.terminal import printable

__all__ = ["doctor"]


def doctor(settings: SettingsFile = None, checkpoint: Checkpoint = "") -> None:
    """Probe the store of sessions: reachable, modules, version, rights, time to live, clock. Say what to do.

    MCP servers of the settings are asked for their tools; what installed packages should bring and cannot is told.

    Exit code 0: all is well. 1: something has to be mended.

    Example: ragflow-lg doctor --checkpoint redis://localhost:6379
    """
    import asyncio

    from ragflow_lg.checkpoints.backends import probe_store
    from ragflow_lg.checkpoints.check_result import CheckResult
    from ragflow_lg.server.assembly.library import catalog
    from ragflow_lg.server.assembly.tool_probe import probe_packages, probe_tools
    from ragflow_lg.server.settings import load_settings

    loaded = load_settings(settings)
    url = checkpoint or loaded.checkpoints

    async def look() -> list[CheckResult]:
        tools = [*probe_packages(catalog()), *await probe_tools(loaded)]
        return [*await probe_store(url, ttl_s=loaded.checkpoint_ttl_s), *tools]

    findings = asyncio.run(look())
    for finding in findings:
        sys.stdout.write(printable(f"{'ok  ' if finding.is_well else 'FAIL'}  {finding.what}\n"))
        if finding.advice:
            sys.stdout.write(printable(f"      → {finding.advice}\n"))
    raise typer.Exit(0 if all(finding.is_well for finding in findings) else 1)
