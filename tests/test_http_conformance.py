"""Some conformance cases over HTTP; ``python -m tests.campaigns http-conformance DIR`` runs all of them."""

import pytest

from tests.conftest import FIXTURES
from tests.harness.cases import Case, read_cases
from tests.harness.http_conformance import judge

pytestmark = pytest.mark.slow

NAMES = ("own-exception-stop", "own-join-nested", "own-llm-history", "own-llm-stream")
SAMPLE = [case for case in read_cases(FIXTURES / "conformance") if case.id in NAMES]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_a_client_receives_the_frames_of_the_engine(case: Case) -> None:
    assert judge(case) == ""
