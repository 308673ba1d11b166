from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl_compiler import convert_source
from ragflow_lg.server.agents.drafts import check_draft, shown_canvas
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.workers import NoWorkers
from tests.server.http.app_server import ECHO


@pytest.mark.parametrize(
    ("dsl", "problem"),
    [
        ("{", "not JSON"),
        ([], "JSON object"),
        ({"components": {"begin": {"obj": {"component_name": "Nothing", "params": {}}}}}, "Nothing"),
        ({"components": {}, "more": 2**70}, "cannot be stored"),
    ],
)
async def test_an_invalid_canvas_is_refused_as_draft(dsl: object, problem: str) -> None:
    with pytest.raises(RequestError, match=problem) as caught:
        await check_draft(Settings(), NoWorkers(), dsl)
    assert (caught.value.number, caught.value.reason) == (101, "canvas-invalid")


async def test_the_answer_to_a_draft_with_many_errors_is_bounded() -> None:
    components: dict[str, Any] = {f"X:{n}": {"obj": {"component_name": "Nothing", "params": {}}} for n in range(200)}
    with pytest.raises(RequestError, match=r"X:49\b") as caught:
        await check_draft(Settings(), NoWorkers(), {"components": components})
    assert str(caught.value).endswith("\nand 150 more")


async def test_of_a_template_only_its_canvas_is_stored() -> None:
    template = {"title": "Echo", "description": "", "dsl": ECHO}
    assert await check_draft(Settings(), NoWorkers(), template) == await check_draft(Settings(), NoWorkers(), ECHO)


async def test_a_canvas_in_dsl_v2_is_stored_and_shown_in_dsl_v1() -> None:
    stored = await check_draft(Settings(), NoWorkers(), {"title": "Echo", "dsl": convert_source(ECHO, "v2")})
    assert await shown_canvas(stored, "v1") == ECHO
    assert await shown_canvas(stored, "v2") == convert_source(ECHO, "v2")


async def test_what_is_wrong_with_dsl_v2_is_reported() -> None:
    document = {"version": 2, "components": {"begin_": {"name": "Begin", "downstream": ["nowhere_1"]}}}
    with pytest.raises(RequestError, match="'nowhere_1', which does not exist"):
        await check_draft(Settings(), NoWorkers(), document)


async def test_an_unknown_version_of_the_dsl_is_refused() -> None:
    with pytest.raises(RequestError, match="v1 or v2"):
        await shown_canvas("{}", "v3")
