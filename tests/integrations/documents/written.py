import json
from typing import Any

from hypothesis import strategies as st

from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.integrations.documents.report_tasks import build_report
from ragflow_lg.services.reports import Layout, ReportRequest
from tests.fakes.images import PNG

EMPTY, PLAIN = Layout(), ReportSettings(system_fonts=False)
DRAWING = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20"/></svg>'
IMAGES = {"a.png": PNG, "b.svg": DRAWING}


def write(text: str, format_: Any, layout: Layout = EMPTY, settings: ReportSettings = PLAIN) -> bytes:
    """Return a file. ``a.png`` and ``b.svg`` are images."""
    return write_with_warnings(text, format_, layout, settings)[0]


def write_with_warnings(
    text: str, format_: Any, layout: Layout = EMPTY, settings: ReportSettings = PLAIN
) -> tuple[bytes, list[str]]:
    """Return a file and its warnings."""
    warnings, _, content = build_report(ReportRequest(text, format_, layout), IMAGES, settings).partition(b"\n")
    return content, json.loads(warnings)


PIECES = [
    *"#$<>@_*`~^[](){}|\\\"'/=-+.:;&!\n\t ",
    *("a", "1", "漢", "م", "$$", "```", "#eval(", "\\(", "\\frac", "\ud800", "\x00", "\x0b", "&lt;", "&#0;", "]]>"),
    *("<script>", "</w:t>", "<!--", "![x](data:,)", "[a](https://b)", "**a**", "- ", "1. ", "> ", "=1+1"),
    "| a | b |\n|--|--|\n",
]
HOSTILE_TEXTS = st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=40)
