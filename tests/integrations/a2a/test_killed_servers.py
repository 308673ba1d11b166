import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from a2a.client import A2AClientError
from a2a.types import GetTaskRequest, SubscribeToTaskRequest, Task

from tests.fakes.a2a_client import WIRES, message, open_client, state_of, text_of, update
from tests.fakes.mock_llm import MockLLM, reply
from tests.server.replicas import TWO_MESSAGES, Replica, replicas, start_replica

pytestmark = pytest.mark.slow

WORDS = [f"w{number} " for number in range(60)]
WHOLE = "".join(WORDS)


def address_of(replica: Replica, agent_id: str) -> str:
    return f"{str(replica.client.base_url).removesuffix('/api/v1/')}/a2a/{agent_id}"


async def begin(replica: Replica, agent_id: str, wire: tuple[str, str]) -> Task:
    """Begin a task, and return what is seen of it before it has ended."""
    task = Task()
    async with open_client(address_of(replica, agent_id), replica.key, wire) as client:
        async for each in client.send_message(message("hi")):
            update(task, each)
            if len(text_of(task)) > 30:
                break
    return task


async def finish(replica: Replica, agent_id: str, wire: tuple[str, str], task: Task) -> None:
    """Follow a task on a server until it has ended."""
    async with open_client(address_of(replica, agent_id), replica.key, wire) as client, asyncio.timeout(60):
        while state_of(task) in ("WORKING", "SUBMITTED"):
            with suppress(A2AClientError):
                async for each in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                    update(task, each)
        assert (state_of(task), text_of(task)) == ("COMPLETED", WHOLE * 2), wire
        got = await client.get_task(GetTaskRequest(id=task.id))
        assert (state_of(got), text_of(got)) == ("COMPLETED", WHOLE * 2), wire


async def test_clients_finish_elsewhere_if_their_server_is_killed(tmp_path: Path, redis_url: str) -> None:
    async with (
        MockLLM([reply(*WORDS, piece_delay_s=0.02)]) as llm,
        replicas(tmp_path, redis_url, llm.base_url) as (first, second),
    ):
        agent_id = (await first.client.post("/agents", json={"title": "Two", "dsl": TWO_MESSAGES})).json()["data"]["id"]
        tasks = await asyncio.gather(*(begin(first, agent_id, wire) for wire in WIRES))
        first.process.kill()
        await asyncio.gather(*(finish(second, agent_id, *each) for each in zip(WIRES, tasks, strict=True)))


async def test_a_server_that_starts_again_continues_the_task(tmp_path: Path) -> None:
    async with MockLLM([reply(*WORDS, piece_delay_s=0.02)]) as llm:
        settings = tmp_path / "settings.toml"
        settings.write_text(
            f'checkpoints = "sqlite:///{tmp_path}/sessions.db"\n[providers.Mock]\nbase_url = "{llm.base_url}"\n'
            f'[server]\ndatabase = "sqlite:///{tmp_path}/server.db"\n'
        )
        server = await start_replica(settings, "")
        try:
            body = {"title": "Two", "dsl": TWO_MESSAGES}
            agent_id = (await server.client.post("/agents", json=body)).json()["data"]["id"]
            task = await begin(server, agent_id, WIRES[0])
            server.process.kill()
            await server.process.wait()
            again = await start_replica(settings, server.key, server.client.base_url.port or 0)
            await server.client.aclose()
            server = again
            await finish(server, agent_id, WIRES[0], task)
        finally:
            await server.client.aclose()
            if server.process.returncode is None:
                server.process.kill()
            await server.process.wait()
