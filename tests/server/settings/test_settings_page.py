"""The page of the settings is the list that the command writes, and its table names every section."""

import re
from pathlib import Path

from ragflow_lg.server.cli.settings_list import as_markdown, find_settings

PAGE = (Path(__file__).parents[3] / "docs" / "settings.md").read_text("utf-8")


def test_the_page_has_the_list_of_the_command() -> None:
    assert PAGE.endswith("\n\n" + as_markdown(find_settings())), "ragflow-lg settings --output markdown"


def test_the_table_names_every_section() -> None:
    sections = {setting.section.strip("[]").partition(".")[0] for setting in find_settings() if setting.section}
    table = PAGE.partition("## All settings")[0]
    assert sections - set(re.findall(r"\[+(\w+)", table)) == set()
