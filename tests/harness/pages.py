"""The pages of the documentation: ``python -m tests.harness.pages FOLDER`` copies them, with their links, for the site.

Those of an integration are in its folder. The site has all of them beside each other.
"""

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = sorted((*(ROOT / "docs").glob("*.md"), *(ROOT / "ragflow_lg" / "integrations").glob("*/*.md")))
PAGES = ["README.md", *(str(page.relative_to(ROOT)) for page in DOCS)]
"""Their paths in the repository, and that of the first page."""
_LINK = re.compile(r"(?<=\]\()(?!https?://|#)[^)#\s]+")


def collect_pages(folder: Path) -> None:
    """Copy the pages and the settings of the site into a folder."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    for page in DOCS:

        def link(match: re.Match[str], page: Path = page) -> str:
            target = (page.parent / match[0]).resolve()
            return target.name if target in DOCS else os.path.relpath(target, ROOT / "docs")

        (folder / "docs" / page.name).write_text(_LINK.sub(link, page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    collect_pages(Path(sys.argv[1]))
