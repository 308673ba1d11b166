"""The report of ``check --for ragflow-1.0`` as one page that opens without a network, to read and to print."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.dsl_compiler.deployment import NoDeployment
from ragflow_lg.dsl_compiler.drawing import sketch_source, to_svg
from ragflow_lg.dsl_compiler.ragflow_1 import Finding, Rule
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.cli.ragflow_1_report import CLASSES, HEAD, Report, describe, group_by_rule
from ragflow_lg.server.cli.terminal import count_of

if TYPE_CHECKING:
    from ragflow_lg.dsl_compiler.drawing.sketch import Mark

_STYLE = """
:root { color-scheme: light dark; --text: #1d2733; --soft: #5b6875; --line: #d6dde4; --page: #fff; --card: #f7f9fb;
  --breaks: #b3261e; --differs: #8a5800; --looks: #1f5f99; --same: #1f7a53; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e8ee; --soft: #9aa7b4; --line: #34404c; --page: #14191f;
  --card: #1b222a; --breaks: #ff8a80; --differs: #f0b75a; --looks: #7db7ee; --same: #6fcf9f; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; color: var(--text);
  background: var(--page); max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 3.5rem 0 .25rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; }
p { margin: .4rem 0; } .soft { color: var(--soft); } small { color: var(--soft); font-size: .8rem; }
a { color: var(--looks); }
table { border-collapse: collapse; width: 100%; margin: 1.5rem 0; }
td, th { text-align: left; padding: .5rem .75rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; font-size: .85rem; } td.number { text-align: right; }
article { border: 1px solid var(--line); border-left: 4px solid; border-radius: 8px; background: var(--card);
  margin: 1rem 0; padding: 1rem 1.25rem; break-inside: avoid; }
article.breaks { border-left-color: var(--breaks); } article.differs { border-left-color: var(--differs); }
article.looks { border-left-color: var(--looks); }
.breaks > .class, td.breaks { color: var(--breaks); } .differs > .class, td.differs { color: var(--differs); }
.looks > .class, td.looks { color: var(--looks); } td.same { color: var(--same); }
.class { font-size: .85rem; font-weight: 600; margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; } ul { margin: .4rem 0; padding-left: 1.2rem; }
code { font: .85em ui-monospace, SFMono-Regular, Menlo, monospace; overflow-wrap: anywhere; }
figure { margin: 1rem 0; border: 1px solid var(--line); border-radius: 8px; background: #fff; overflow: auto; }
figure svg { display: block; max-width: none; } .wide { overflow-x: auto; }
.top { font-size: .85rem; font-weight: 400; margin-left: .75rem; } summary { cursor: pointer; color: var(--soft); }
@media print { body { max-width: none; padding: 0; } figure svg { max-width: 100%; height: auto; }
  details:not([open]) > *:not(summary) { display: block; } }
td.breaks, td.differs, td.looks, td.same { white-space: nowrap; }
""".strip()

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_MARKS: dict[str, Mark] = {"breaks": "error", "differs": "changed"}

_MAX_PLACES = 12


def build_page(reports: Sequence[Report]) -> str:
    """Return the page: what is known and what is not, a table of the canvases, and each canvas with its drawing."""
    ranked = sorted(reports, key=lambda r: (-r.count("breaks"), -r.count("differs"), -r.count("looks"), r.name))
    title = "What RAGFlow 1.0 changes" + (f" for {_title(ranked[0])}" if len(ranked) == 1 else "")
    sections = "".join(_section(i, each, has_heading=len(ranked) > 1) for i, each in enumerate(ranked))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        f'<h1 id="top">{escape(title)}</h1>\n<p>{escape(_lead(ranked))}</p>\n<p class="soft">{escape(HEAD)}</p>\n'
        f"{_ADVICE}{_table(ranked) if len(ranked) > 1 else ''}{sections}"
        f'<p class="soft"><small>ragflow-lg {escape(_version())}</small></p>\n</body>\n</html>\n'
    )


def _version() -> str:
    from ragflow_lg import __version__

    return __version__


def _title(report: Report) -> str:
    return Path(report.name).stem


def _lead(reports: Sequence[Report]) -> str:
    if len(reports) == 1:
        return f"Of the rules about RAGFlow 1.0, {describe(reports[0])}."
    counts = {class_: sum(report.worst == class_ for report in reports) for class_ in CLASSES}
    same = len(reports) - sum(counts.values())
    return (
        f"Of {len(reports):,} canvases, {counts['breaks']} will break, {counts['differs']} will answer differently and "
        f"{counts['looks']} will only look different to programs that read their events. "
        f"No change is known for {same}."
    )


_ADVICE = """<details open><summary>What the words mean, and what to do</summary>
<p><b>Breaks</b>: the canvas does not load, cannot be saved, or a run of it ends with an error. <b>Answers
differently</b>: it runs, and people may get another answer. <b>Looks different to clients</b>: people get the same
answer, and programs that read events get other ones.</p>
<ol><li>Run <code>ragflow-lg check --for ragflow-1.0 --fix</code> on the exported files: it makes the changes that
change nothing on 0.27. Import the files in RAGFlow's editor.</li>
<li>Change by hand what is left, or decide that it does not matter.</li>
<li>Try the canvas in RAGFlow 1.0 on a copy of your data: an upgrade is only possible from 0.27.2, and cannot be
undone.</li>
<li>A canvas that 1.0 breaks can stay on 0.27, or go on in ragflow-lg, which runs it as 0.27 does.</li></ol>
<p><code>--all</code> also reports what depends on the course of a run, such as repetitions after errors, or a model
that answers with more than the name of a category.</p></details>
"""


def _table(reports: Sequence[Report]) -> str:
    names = ("Canvas", "Verdict", "Break", "Differ", "Look different", "What to do")
    rows = "".join(
        f'<tr><td><a href="#canvas-{index}">{escape(_title(report))}</a></td>'
        f'<td class="{report.worst or "same"}">{CLASSES[report.worst][0] if report.worst else "no change known"}</td>'
        + "".join(f'<td class="number">{report.count(class_) or ""}</td>' for class_ in CLASSES)
        + f"<td>{_what_to_do(report)}</td></tr>\n"
        for index, report in enumerate(reports)
    )
    heads = "".join(f"<th>{name}</th>" for name in names)
    return f'<div class="wide"><table>\n<tr>{heads}</tr>\n{rows}</table></div>\n'


def _what_to_do(report: Report) -> str:
    """Return a recommendation: what is left of the rules that matter once the safe changes are made."""
    matter = [(rule, found) for rule, found in group_by_rule(report) if rule.class_ != "looks"]
    left = [rule for rule, found in matter if not all(finding.is_fixable for finding in found)]
    fix = "--fix, then " if len(left) < len(matter) else ""
    if not matter:
        return "nothing, or adapt programs that read events" if report.worst else "try it"
    if not left:
        return f"{fix}try it"
    by_hand = f"{fix}{len(left)} by hand"
    return f"{by_hand}, or stay" if any(rule.class_ == "breaks" for rule in left) else by_hand


def _section(index: int, report: Report, *, has_heading: bool) -> str:
    groups = group_by_rule(report)
    mended = [(rule, found) for rule, found in groups if all(finding.is_fixable for finding in found)]
    cards = "".join(_card(rule, found) for rule, found in groups if (rule, found) not in mended)
    if mended:
        count = count_of(len(mended), "change")
        cards += (
            f"<details><summary>{count} that --fix makes</summary>{''.join(_card(*each) for each in mended)}</details>"
        )
    title = escape(_title(report))
    top = '<a class="top" href="#top">↑ all canvases</a>'
    heading = (
        f'<h2 id="canvas-{index}">{title} {top}</h2>\n<p class="soft">{escape(describe(report))}. '
        if has_heading
        else "<p>"
    )
    return f"{heading}What to do: {_what_to_do(report)}.</p>\n{_drawing(report)}{cards}"


def _drawing(report: Report) -> str:
    sketch, _ = sketch_source(report.source, catalog(), NoDeployment())
    if sketch is None:
        return ""
    marks: dict[str, Mark] = {}
    for finding in report.findings:
        if finding.node and finding.rule.class_ in _MARKS:
            marks.setdefault(finding.node, _MARKS[finding.rule.class_])
    svg = to_svg(sketch.with_marks(marks)).replace(" (changed)", "").replace(" (error)", "")
    return (
        "<details open><summary>The canvas. A thick red frame breaks, a thick yellow frame answers differently; other "
        f"colours only show kinds of nodes.</summary>\n<figure>{svg}</figure></details>\n"
    )


def _card(rule: Rule, found: Sequence[Finding]) -> str:
    name = CLASSES[rule.class_][0]
    fix = " · <code>--fix</code> changes it" if any(finding.is_fixable for finding in found) else ""
    places = "".join(f"<li>{_place(finding)}</li>" for finding in found[:_MAX_PLACES])
    more = f"<li>and {len(found) - _MAX_PLACES} more</li>" if len(found) > _MAX_PLACES else ""
    change = "No setting makes both do the same." if rule.change == "None." else rule.change
    known = "Seen when the new engine ran" if rule.seen else "Read in the source of the new engine, not run"
    return (
        f'<article class="{rule.class_}"><p class="class">{escape(name.capitalize())}{fix}</p>\n'
        f"<ul>{places}{more}</ul>\n<dl><dt>0.27</dt><dd>{_text(rule.old)}</dd>"
        f"<dt>1.0</dt><dd>{_text(rule.new)}</dd><dt>Change</dt><dd>{_text(change)}</dd></dl>\n"
        f"<small><code>{rule.id}</code>. {known}.</small></article>\n"
    )


def _place(finding: Finding) -> str:
    node = f"<b>{escape(finding.title or finding.node)}</b>" if finding.node else "The canvas"
    line = f' <span class="soft">line {finding.line}</span>' if finding.line else ""
    return f"{node}{f': {escape(finding.detail)}' if finding.detail else ''}{line}"


def _text(text: str) -> str:
    """Return a text of a rule with its code marked."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
