"""Reports for ``ragflow-lg check --for ragflow-1.0``, of files and of a running RAGFlow."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.errors import CompileError, ServiceError, SettingsError
from ragflow_lg.dsl_compiler.comparison import compare_canvases
from ragflow_lg.dsl_compiler.ragflow_1 import RULES, Finding, Rule, RuleClass, examine, fix_canvas
from ragflow_lg.server.assembly.canvas_files import read_canvas
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.cli.diagnostics_output import expand_paths
from ragflow_lg.server.cli.diff import as_lines
from ragflow_lg.server.cli.output_file import replace_file
from ragflow_lg.server.cli.terminal import Style, count_of, print_note, printable

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent

CLASSES: dict[RuleClass, tuple[str, str, Style]] = {
    "breaks": ("breaks", "break", "red"),
    "differs": ("answers differently", "answer differently", "yellow"),
    "looks": ("looks different to clients", "look different to clients", "cyan"),
}
"""What is said of one canvas and of several, and the colour."""

_EFFECTS: dict[RuleClass, tuple[str, str]] = {
    "breaks": ("breaks it", "break it"),
    "differs": ("changes its answers", "change its answers"),
    "looks": ("changes what clients see", "change what clients see"),
}
"""What one rule and several do to a canvas."""

SAME = "nothing that the rules know changes"

HEAD = (
    "RAGFlow 1.0 has a new engine. Its rules come from the source of 22 August 2026, before 1.0.0-rc1: "
    '"seen" means that the new engine ran, "read" that only its source was read. Try what matters in 1.0 itself.'
)


class Report(NamedTuple):
    """What RAGFlow 1.0 does otherwise with one canvas."""

    name: str
    source: bytes
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> RuleClass | None:
        """The class of the worst finding."""
        return next((class_ for class_ in CLASSES if self.count(class_)), None)

    def count(self, class_: RuleClass) -> int:
        """Return how many rules of a class are met."""
        return len({finding.rule.id for finding in self.findings if finding.rule.class_ == class_})


def report_files(paths: Sequence[Path], output: str, *, every_rule: bool, is_fixing: bool) -> tuple[list[Report], int]:
    """Examine canvases in files and folders; with ``is_fixing``, first make the safe changes in the files.

    Return the reports, and how many files are no canvas or cannot be read; the reasons are on standard error.
    """
    reports: list[Report] = []
    unread = 0
    for path in expand_paths(paths):
        try:
            if is_fixing:
                _fix_file(path, to_standard_output=output == "text")
            reports.append(examine_source(str(path), read_canvas(path), every_rule=every_rule))
        except (SettingsError, CompileError) as error:
            sys.stderr.write(f"ragflow-lg: {path}: {printable(str(error))}\n")
            unread += 1
    return reports, unread


def report_server(
    url: str, key_env: str, settings: Path | None, *, every_rule: bool, is_private: bool
) -> tuple[list[Report], int]:
    """Examine all agents of a running RAGFlow. Nothing is stored.

    Return the reports, and how many agents cannot be read; the reasons are on standard error.

    Raises:
        SettingsError: if the address, the key or the settings are invalid.
        ServiceError: if the server fails.
    """
    from ragflow_lg.server.migration.connection import find_source, load_folder_settings, read_key, with_api

    source = find_source(Path.cwd(), None, url, key_env, is_private=is_private)
    config = load_folder_settings(Path.cwd(), settings)
    agents, failures = with_api(config, source, read_key(source), _read_agents)
    reports: list[Report] = []
    for agent in agents:
        try:
            text = json.dumps(agent.dsl, ensure_ascii=False)
            reports.append(examine_source(agent.title, text.encode(), every_rule=every_rule))
        except CompileError as error:
            failures.append(f"{agent.title}: {error}")
    for failure in failures:
        sys.stderr.write(f"ragflow-lg: {printable(failure)}\n")
    return reports, len(failures)


async def _read_agents(api: RagflowApi) -> tuple[list[RemoteAgent], list[str]]:
    from ragflow_lg.adapters.ragflow_api.remote_agents import list_agents, read_agent

    agents: list[RemoteAgent] = []
    failures: list[str] = []
    for row in await list_agents(api):
        try:
            agents.append(await read_agent(api, row))
        except ServiceError as error:
            failures.append(f"{row.get('title') or row.get('id')}: {error}")
    return agents, failures


def examine_source(name: str, source: bytes, *, every_rule: bool) -> Report:
    """Return the report for a canvas.

    Raises:
        CompileError: if it is none.
    """
    return Report(name, source, examine(source, catalog(), every_rule=every_rule))


def _fix_file(path: Path, *, to_standard_output: bool) -> None:
    """Make the safe changes in a file, and print them."""
    old = read_canvas(path)
    text, mended = fix_canvas(old, catalog())
    if not mended:
        return
    replace_file(path, text.encode())
    rules = ", ".join(dict.fromkeys(finding.rule.id for finding in mended))
    print_note(f"{path}: {count_of(len(mended), 'change')} ({rules}).")
    if to_standard_output:
        lines = as_lines(compare_canvases(old, text, catalog()))
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def evidence(rule: Rule) -> str:
    """Return how a rule is known, as words."""
    how = "Seen when the new engine ran" if rule.seen else "Read in the source, not run"
    span = f", until {rule.until}" if rule.until else f", since {rule.since}" if rule.since else ""
    return f"{how}{span} ({rule.verified_against}; {rule.evidence})."


def group_by_rule(report: Report) -> list[tuple[Rule, list[Finding]]]:
    """Return the findings of each rule, the worst class first."""
    groups: dict[str, list[Finding]] = {}
    for finding in report.findings:
        groups.setdefault(finding.rule.id, []).append(finding)
    return [(RULES[id_], found) for id_, found in groups.items()]


def describe(report: Report) -> str:
    """Return the verdict on a canvas in words, by the number of rules: ``1 breaks it, 2 change its answers``."""
    parts = [
        f"{report.count(class_)} {one if report.count(class_) == 1 else many}"
        for class_, (one, many) in _EFFECTS.items()
        if report.count(class_)
    ]
    return ", ".join(parts) or SAME
