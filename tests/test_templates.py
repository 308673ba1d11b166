"""Templates of agents, played with rules for the mock model server: each has rules, and some run here."""

from pathlib import Path

import pytest

from tests.fakes.browsers import NO_CHROMIUM, has_chromium
from tests.harness.templates import find_templates, judge, read_script

pytestmark = pytest.mark.slow

PLAYED = ("browser", "data_analysis_beginner_assistant", "subaget", "text2sql_data_expert")
"""Templates that use Chromium, a sandbox, an agent with an MCP server, and a database."""


def test_every_template_has_rules(shared_corpus: Path) -> None:
    assert [path.name for path in find_templates(shared_corpus) if read_script(path) is None] == []


@pytest.mark.parametrize("name", PLAYED)
def test_template_runs_to_its_end(shared_corpus: Path, name: str) -> None:
    if name == "browser" and not has_chromium:
        pytest.skip(NO_CHROMIUM)
    path = next(path for path in find_templates(shared_corpus) if path.name.startswith(f"{name}@"))
    verdict = judge(path)
    assert verdict.has_passed, verdict.text
    assert verdict.text.startswith("ended")
