"""The page of versions that were tried."""

import json
import re

from tests.harness.versions import DATA, PACKAGES, PAGE, ROOT, page


def test_the_page_is_that_of_the_file() -> None:
    assert PAGE.read_text("utf-8") == page()


def test_the_pinned_versions_were_tried() -> None:
    tried = {
        (what, version) for what, version, _, result, _ in json.loads(DATA.read_text("utf-8")) if "passed" in result
    }
    pins = re.findall(r"^([\w-]+)==([\w.]+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert [pin for pin in pins if pin[0] in PACKAGES and pin not in tried] == []
