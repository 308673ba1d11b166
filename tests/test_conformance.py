"""Every conformance case: the project's own ones, and the recorded ones if available."""

import re

import pytest

from ragflow_lg.dsl.compatibility import RAGFLOW
from tests.architecture.sources import ROOT
from tests.conftest import FIXTURES, SHARED
from tests.harness.agreement import find_differing_fields
from tests.harness.cases import Case, read_cases
from tests.harness.conformance import judge
from tests.harness.play import play
from tests.harness.rows import each_row
from tests.stores import OpenStore, fresh_prefix, store_opener

OWN = list(read_cases(FIXTURES / "conformance"))
RECORDED = [case for folder in ("conformance/cases", "review/cases/fidelity") for case in read_cases(SHARED / folder)]


OPTIONAL = [case for case in OWN if case.option]
"""Cases about a behaviour of RAGFlow that can be chosen."""

PAUSING = [case for case in (*OWN, *RECORDED) if {"UserFillUp", "Fillup"} & set(case.components.values())]


def check(case: Case, reopen: OpenStore | None = None) -> None:
    verdict = judge(case, reopen)
    assert verdict.outcome == "pass", verdict.reason


@each_row("case", OWN)
def test_own_case_passes(case: Case) -> None:
    check(case)


async def test_a_stream_breaks_where_and_how_the_case_says() -> None:
    (case,) = [case for case in OWN if case.id == "own-stream-break"]
    turns = await play(case)
    assert [(turn.answer, turn.error) for turn in turns] == [
        ("Apar", "The line is cut."),
        ("Aa longer", "The stream broke."),
    ]


@each_row("case", OPTIONAL)
def test_the_case_has_ragflows_result_with_its_option(case: Case) -> None:
    check(case.with_compatibility({case.option: True}))
    check(case.with_compatibility("ragflow"))


@pytest.mark.skipif(not RECORDED, reason="the folder ../shared/conformance does not exist")
@each_row("case", RECORDED)
def test_recorded_case_passes(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.skipif(not RECORDED, reason="the folder ../shared/conformance does not exist")
def test_the_pages_say_how_many_recordings_have_ragflows_result() -> None:
    cases = list(read_cases(SHARED / "conformance/cases"))
    by_default = sum(not find_differing_fields(case) for case in cases)
    with_options = sum(not find_differing_fields(case.with_compatibility(RAGFLOW)) for case in cases)
    readme, page = (" ".join((ROOT / name).read_text("utf-8").split()) for name in ("README.md", "docs/fidelity.md"))
    assert re.findall(r"(\d+) of (\d+) recorded behaviours .*? and (\d+) with", readme) == [
        (str(by_default), str(len(cases)), str(with_options))
    ]
    assert f"Of {len(cases)} recorded cases, {by_default} have" in page
    assert f"that is compared, and {with_options} with all" in page
    assert f"The {len(cases) - with_options} that differ with all options" in page


@each_row("case", PAUSING)
def test_pauses_survive_a_new_process_for_every_turn(case: Case, shared_url: str) -> None:
    check(case, store_opener(shared_url.replace("s.db", f"{case.id}.db"), fresh_prefix()))
