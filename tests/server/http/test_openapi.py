"""What fits the OpenAPI document, and nonsense, by schemathesis: the server never fails, and answers as it promises.

``make fuzz-api`` asks for longer.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.api_fuzz import TOOL, fuzz

BRIEF = "examples,fuzzing"
"""Without the phase that goes through every bound of every value, which takes a minute."""


@pytest.mark.slow
@pytest.mark.skipif(not TOOL.is_dir(), reason="schemathesis is not there; `make clients` fetches it")
def test_every_answer_is_one_that_the_document_promises(tmp_path: Path) -> None:
    code, told = fuzz(tmp_path, examples=1, limit_s=120, phases=BRIEF)
    assert code == 0, told
    tested, passed = re.findall(r"Tested: (\d+)|(\d+) generated", told)
    assert int(tested[0]) >= 95, told
    assert int(passed[1]) >= 200, told
