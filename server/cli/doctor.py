"""``ragflow-lg doctor``: check what is stored where, installed packages and what integrations report."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import typer

from ragflow_lg.server.cli.options import Checkpoint, SettingsFile
from ragflow_lg.server.cli.terminal import paint, printable

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.check_result import CheckResult


def _mark(finding: CheckResult) -> str:
    """Return the mark of a finding, four columns wide. Advice without a failure is for those who need that part."""
    if not finding.is_well:
        return paint("FAIL", "bold", "red")
    return paint("note", "yellow") if finding.advice else paint("ok", "green") + "  "


def doctor(settings: SettingsFile = None, checkpoint: Checkpoint = "") -> None:
    """Check the store, models, MCP servers and what is installed.

    Checks the store's connection, modules, version, permissions, expiry and clock, and the default model and the keys
    in the settings, with advice for every problem. Also queries the server's database and the queue of runs, lists the
    tools of the configured MCP servers, queries the databases and greets the mail servers in the settings, reports
    installed packages whose components cannot be loaded, and names the sandbox in which CodeExec runs programs, the
    Chromium that Browser uses, and the languages for which PDF files have no font.

    A `note` says what a part that is not set up would need. Exit code 0: nothing fails. 1: something needs fixing.

    Example: ragflow-lg doctor --checkpoint redis://localhost:6379
    """
    from ragflow_lg.server.assembly.health_checks import check_health
    from ragflow_lg.server.settings import load_settings

    by_area = asyncio.run(check_health(load_settings(settings), checkpoint))
    findings = [finding for found in by_area.values() for finding in found]
    for finding in findings:
        sys.stdout.write(f"{_mark(finding)}  {printable(finding.what)}\n")
        if finding.advice:
            sys.stdout.write(printable(f"      → {finding.advice}\n"))
    raise typer.Exit(0 if all(finding.is_well for finding in findings) else 1)
