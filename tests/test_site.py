"""The documentation as a site: every page is in it, links lead somewhere, and nothing comes from another server."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.pages import DOCS, ROOT, collect_pages

pytestmark = pytest.mark.slow

LOADED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*?\b(?:src|href)=["']?(https?:[^"'\s>]+)""")
"""What a browser fetches by itself when it shows a page."""


def _pages(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for section in entry.values():
                yield from _pages(section)


def test_every_page_stands_in_the_navigation_once() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    assert sorted(_pages(settings["nav"])) == sorted(page.name for page in DOCS)


def test_the_site_has_no_broken_link_and_needs_no_other_server(tmp_path: Path) -> None:
    collect_pages(tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    site = tmp_path / "site"
    pages = list(site.glob("*.html"))
    assert len(pages) > len(DOCS)  # and one for what is not found
    assert {address for page in pages for address in LOADED.findall(page.read_text("utf-8"))} == set()
    assert (site / "search.js").is_file()  # searches from disk, too, where nothing can be fetched
