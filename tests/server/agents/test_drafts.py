import json
import pickle
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pydantic import SecretStr

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import CompileError, RequestError
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.drawing import to_svg
from ragflow_lg.integrations.mcp.mcp_settings import McpSection
from ragflow_lg.server.agents import drafts
from ragflow_lg.server.agents.drafts import (
    SMALL_BYTES,
    check_draft,
    check_in_worker,
    draw_canvas,
    find_diagnostics,
    without_secrets,
)
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.limits_section import LimitsSection
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import AgentsSection, ProviderSection
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.canvas import CATALOG, canvas, node, text
from tests.harness.rows import each_row


@each_row(
    ("dsl", "problem"),
    [
        ("{", "not JSON"),
        ([], "JSON object"),
        ({"components": {"begin": {"obj": {"component_name": "Nothing", "params": {}}}}}, "Nothing"),
        ({"components": {}, "more": 2**70}, "cannot be stored"),
        (f'{{"components": {{}}, "more": {2**70}}}', "cannot be stored"),
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


@pytest.fixture
async def pool() -> AsyncGenerator[WorkerPool]:
    pool = WorkerPool(size=2)
    yield pool
    await pool.aclose()


def encode(components: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({**canvas(components), **more}).encode()


@pytest.mark.parametrize("notes", ["", "x" * 2 * SMALL_BYTES])
async def test_large_canvases_are_checked_as_small_ones_are(pool: WorkerPool, notes: str) -> None:
    content = encode({"a": text([], "{ghost@x}"), "b": node("Warp")}, notes=notes)
    can_run, diagnostics = await find_diagnostics(pool, Settings(), content)
    plan, expected = check_canvas(content, CATALOG)

    assert (can_run, diagnostics) == (plan is not None, list(expected))
    assert diagnostics


async def test_only_so_many_diagnostics_are_returned_and_the_errors_first(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "MAX_DIAGNOSTICS", 3)
    content = encode({"a": text(), "x": node("Warp"), "b": text([], "{ghost@x}")}, globals={"n1": 1, "n2": 1, "n3": 1})
    _, all_of_them = check_canvas(content, CATALOG)
    _, diagnostics = await find_diagnostics(pool, Settings(), content)
    errors = [found for found in all_of_them if found.severity == "error"]
    assert len(all_of_them) > 3 >= len(errors) > 0
    assert [found for found in diagnostics if found.severity == "error"] == errors
    assert [found for found in all_of_them if found in diagnostics] == diagnostics
    assert len(diagnostics) == 3


async def test_a_canvas_whose_check_takes_too_long_is_stopped(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_in_worker, "seconds", 0.01)
    slow = {"m": node("Message", {"content": ["{{1}}" * 900] * 10})}
    with pytest.raises(RequestError, match="Checking the canvas did not finish") as caught:
        await find_diagnostics(pool, Settings(), encode(slow))
    assert (caught.value.status, caught.value.reason) == (422, "canvas-invalid")


async def test_the_limits_of_the_settings_apply(pool: WorkerPool) -> None:
    for limit, notes in ((100, ""), (SMALL_BYTES, "x" * 2 * SMALL_BYTES)):
        settings = Settings(limits=LimitsSection(canvas_bytes=limit))
        can_run, (problem,) = await find_diagnostics(pool, settings, encode({"a": text()}, notes=notes))
        assert not can_run
        assert f"the limit canvas_bytes is {limit:,}" in problem.message


@pytest.mark.parametrize("notes", ["", "x" * 2 * SMALL_BYTES])
async def test_large_canvases_are_drawn_as_small_ones_are(pool: WorkerPool, notes: str) -> None:
    assert (await draw_canvas(pool, Settings(), encode({"a": text()}, notes=notes), to_svg)).startswith(b"<svg")
    assert b"Warp" in await draw_canvas(pool, Settings(), encode({"a": node("Warp")}, notes=notes), to_svg)
    with pytest.raises(CompileError, match="no components"):
        await draw_canvas(pool, Settings(), b"{}", to_svg)


def test_workers_get_rules_but_no_secrets() -> None:
    server = McpSection(url=SecretStr("https://x.test/?k=geheim1"), headers={"a": Secret("geheim2")}, allow=("t",))
    provider = ProviderSection(api_key=Secret("geheim3"))
    agents = AgentsSection(deny_tools=("Wikipedia",))
    settings = Settings(mcp={"m": server}, providers={"p": provider}, agents=agents).for_model("demo")
    data = pickle.dumps(without_secrets(settings))

    assert b"geheim" not in data
    received: Settings = pickle.loads(data)
    assert received.permits == settings.permits
    assert received.tool_servers["m"].allow == ("t",)
    assert received.compat == settings.compat
    assert received.override_model == "demo"
