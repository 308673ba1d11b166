"""Write the generated parts of ``docs/ragflow_1.md``: ``python -m tests.harness.ragflow_1_table [CORPUS]``.

With the folder of real canvases, the table of their verdicts is written as well.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler.ragflow_1 import RULES, examine
from ragflow_lg.server.assembly.library import catalog

PAGE = Path(__file__).parents[2] / "docs" / "ragflow_1.md"
HEADINGS = {"breaks": "Breaks", "differs": "Answers differently", "looks": "Looks different to clients"}


def replace_part(text: str, name: str, lines: Iterable[str]) -> str:
    """Replace what stands between the marks of a part."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = text.split(start)
    return f"{before}{start}\n" + "".join(f"{line}\n" for line in lines) + f"\n{end}{rest.split(end)[1]}"


def rule_lines() -> Iterable[str]:
    """Yield the tables of the rules."""
    for class_, heading in HEADINGS.items():
        yield f"### {heading}"
        yield ""
        yield "| rule | RAGFlow 0.27 | RAGFlow 1.0 | change | known by |"
        yield "| --- | --- | --- | --- | --- |"
        for rule in RULES.values():
            if rule.class_ == class_:
                cells = [f"`{rule.id}`", rule.old, rule.new, rule.change, _known_by(rule.id)]
                yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
        yield ""


def _known_by(id_: str) -> str:
    rule = RULES[id_]
    parts = ["seen" if rule.seen else "read", "`--fix`" if rule.fix else "", "`--all`" if rule.run_time else ""]
    parts += [f"since {rule.since}" if rule.since else "", f"until {rule.until}" if rule.until else ""]
    return ", ".join(part for part in parts if part)


def corpus_lines(folder: Path) -> Iterable[str]:
    """Yield the table of real canvases."""
    names = {"agent": "canvases of 0.20 and later", "graph_only": "only the editor's graph", "legacy": "before 0.20"}
    yield "| canvases | all | break | answer differently | only look different | same |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for part, name in names.items():
        counts = Counter(_verdict(path) for path in sorted((folder / part).glob("*.json")))
        del counts[""]
        numbers = [sum(counts.values()), *(counts[verdict] for verdict in ("breaks", "differs", "looks", "same"))]
        yield f"| {name} | {' | '.join(map(str, numbers))} |"


def _verdict(path: Path) -> str:
    try:
        classes = {finding.rule.class_ for finding in examine(path.read_bytes(), catalog())}
    except CompileError:  # an ingestion pipeline
        return ""
    return next((class_ for class_ in ("breaks", "differs", "looks") if class_ in classes), "same")


if __name__ == "__main__":
    page = replace_part(PAGE.read_text("utf-8"), "rules", rule_lines())
    if sys.argv[1:]:
        page = replace_part(page, "canvases", corpus_lines(Path(sys.argv[1])))
    PAGE.write_text(page, "utf-8")
