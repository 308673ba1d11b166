"""The page of the settings names every setting at the top of the file, and every section."""

import re
from pathlib import Path

from ragflow_lg.server.settings import Settings

PAGE = (Path(__file__).parents[3] / "docs" / "settings.md").read_text("utf-8")
ROWS = [row.partition(" | ")[0] for row in re.findall(r"(?m)^\| (.+) \|$", PAGE)]


def test_the_page_has_every_setting_and_no_other() -> None:
    shown = [name for row in ROWS for name in re.findall(r"`\[*(\w+)[^`]*`", row)]
    assert sorted(shown) == sorted(Settings.model_fields)
