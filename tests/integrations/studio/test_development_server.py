import json
import re
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.integrations.studio.development_server import lock_folder, studio_link
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.assembly.library import load_canvas
from tests.fakes.services import fake_services
from tests.harness.studio import ROOT, StudioServer, studio_server
from tests.integrations.studio.langgraph_checks import (
    SHIRT,
    SHOES,
    Api,
    check_api,
    check_origins,
    make_folder,
    start_run,
)
from tests.stores import fresh_prefix

pytestmark = pytest.mark.slow

PAGE = (ROOT / "ragflow_lg" / "integrations" / "studio" / "studio.md").read_text("utf-8")
SAMPLE = re.compile(r"^curl -X POST \S+/threads .*?-d '(.+?)'$", re.MULTILINE | re.DOTALL)


async def check_all(server: StudioServer) -> None:
    await check_api(Api(get_client(url=server.url)), server.log.parent / "canvases")
    assert "BlockingError" not in server.output


async def test_sessions_of_langgraphs_server(tmp_path: Path) -> None:
    with studio_server(make_folder(tmp_path)) as server:
        await check_origins(server.url)
        assert [file.name for file in server.project.skipped] == ["broken.json"]
        assert server.url in studio_link(server.url)
        await check_all(server)


async def test_sessions_in_redis_are_shared_with_our_runner(tmp_path: Path, redis_url: str) -> None:
    prefix = fresh_prefix()
    folder = make_folder(tmp_path)
    with studio_server(folder, checkpoints=redis_url, RAGFLOW_LG_CHECKPOINT_PREFIX=prefix) as server:
        await check_all(server)
        client = get_client(url=server.url)
        async with open_store(redis_url, prefix=prefix) as store:
            runner = Runner(load_canvas(folder / "order_form.json"), fake_services(), store=store)
            await check_studio_finishes_our_session(client, runner)
            await check_we_finish_a_studio_session(client, runner)


async def check_studio_finishes_our_session(client: Any, runner: Runner) -> None:
    run = runner.start("5" * 32, {"query": "Order"})
    assert [event.event async for event in run][-1] == "user_inputs"
    thread = thread_of_session("5" * 32)
    sample = SAMPLE.search(PAGE)
    assert sample is not None, "the page shows how to register a session"
    body = json.loads(sample[1])
    assert body["thread_id"] == thread
    await client.http.post("/threads", json=body)
    assert (await client.threads.get(thread))["metadata"]["graph_id"] == "order_form"
    snapshot = await client.threads.get_state(thread)
    ids = {i["value"]["component_id"]: i["id"] for task in snapshot["tasks"] for i in task["interrupts"]}
    answers = {ids[SHIRT]: {"size": 1, "colour": "blue"}, ids[SHOES]: {"size": 2}}
    await client.runs.wait(thread, "order_form", command={"resume": answers})
    state = await runner.state("5" * 32)
    assert state["turn"]["status"] == "succeeded"
    assert json.dumps(state["messages"][-1]["content"]) == '"A blue shirt of size 1, and shoes of size 2."'


async def check_we_finish_a_studio_session(client: Any, runner: Runner) -> None:
    thread, _ = await start_run(client, "order_form", input={"query": "Order"})
    session = session_of_thread(thread)
    pauses = {pause.node: pause.id for pause in await runner.pauses(session)}
    run = runner.resume(session, {pauses[SHIRT]: {"size": 7, "colour": "red"}, pauses[SHOES]: {"size": 8}})
    assert [event.event async for event in run][-1] == "workflow_finished"
    snapshot = await client.threads.get_state(thread)
    assert snapshot["values"]["messages"][-1]["content"] == "A red shirt of size 7, and shoes of size 8."
    assert snapshot["next"] == []


def test_a_folder_is_locked_once_and_then_released(tmp_path: Path) -> None:
    for _ in range(2):
        with (
            lock_folder(tmp_path),
            pytest.raises(SettingsError, match="Another `ragflow-lg studio` serves"),
            lock_folder(tmp_path),
        ):
            pytest.fail("it is locked twice")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(SettingsError, match="cannot be opened"), lock_folder(tmp_path / "none"):
        pytest.fail("it does not exist")
