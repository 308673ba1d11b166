"""A real Redis Cluster: everything of a deployment lies in one slot, and its master may die."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_items, open_store
from ragflow_lg.checkpoints.backends import probe_store, store_exists
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.checkpoints.redis.redis_client import open_redis
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.streaming.open_journal import open_journal
from ragflow_lg.server.streaming.run_queue import open_queue
from ragflow_lg.services.encryption import EncryptionKey
from tests.checkpoints.redis.test_data_loss import CHAIN, play_and_check
from tests.fakes.canvas import CATALOG, canvas
from tests.fakes.redis_process import RedisProcess, master_of, redis_cluster
from tests.fakes.regions import form, out
from tests.fakes.services import fake_services
from tests.server.streaming.journals import head, read

pytestmark = pytest.mark.slow

NAME = "shop"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisProcess]]:
    with redis_cluster(tmp_path_factory.mktemp("cluster"), replica_of=NAME) as nodes:
        yield nodes


def url_of(nodes: list[RedisProcess], name: str) -> str:
    """Return a URL with a node that has gone and one that is no master of the name."""
    seed = next(node for node in nodes if node is not master_of(nodes, name))
    return f"redis+cluster://127.0.0.1:1,127.0.0.1:{seed.port}/{name}"


def keys_of(node: RedisProcess) -> set[bytes]:
    return set(node.request("KEYS", "*"))


def contents_of(node: RedisProcess, prefix: str) -> list[Any]:
    """Return the contents of the keys with a prefix."""
    commands = {b"string": ["GET"], b"hash": ["HGETALL"], b"ReJSON-RL": ["JSON.GET"], b"stream": ["XRANGE", "-", "+"]}
    commands |= {b"list": ["LRANGE", "0", "-1"], b"set": ["SMEMBERS"], b"zset": ["ZRANGE", "0", "-1"]}
    contents: list[Any] = []
    for key in node.request("KEYS", f"{prefix}*"):
        name, *more = commands[node.request("TYPE", key)]
        contents.append(node.request(name, key, *more))
    return contents


async def do_nothing() -> None:
    pass


async def test_a_deployment_lies_in_the_slot_of_its_name(cluster: list[RedisProcess]) -> None:
    name = next(
        f"n{number}" for number in range(100) if master_of(cluster, f"n{number}") is not master_of(cluster, NAME)
    )
    before = set[bytes]().union(*(keys_of(node) for node in cluster))  # a replica may still miss some of them
    assert await play_and_check(url_of(cluster, name), CHAIN, {"first": do_nothing, "second": do_nothing}) == ""
    new = [keys_of(node) - before for node in cluster]
    assert {key.partition(b"}")[0] for keys in new for key in keys} == {b"{%s" % name.encode()}
    assert [bool(keys) for keys in new] == [node is master_of(cluster, name) for node in cluster]


async def test_a_mistyped_name_of_a_deployment_has_no_store(cluster: list[RedisProcess]) -> None:
    async with open_store(url_of(cluster, "right")):
        assert await store_exists(url_of(cluster, "right"))
    assert not await store_exists(url_of(cluster, "left"))


async def test_doctor_knows_a_cluster(cluster: list[RedisProcess]) -> None:
    results = await probe_store(url_of(cluster, NAME), ttl_s=10**6)
    assert {result.what for result in results} >= {"a cluster", "writes, scripts and publishing work"}
    results = await probe_store(cluster[0].url, ttl_s=10**6)
    assert "redis+cluster://HOST:PORT/NAME" in next(result.advice for result in results if result.what == "a cluster")


async def test_the_url_of_one_node_is_corrected(cluster: list[RedisProcess]) -> None:
    with pytest.raises(CheckpointError, match=r"part of a cluster: write redis\+cluster://HOST:PORT/NAME"):
        async with open_redis(cluster[0].url):
            pass


async def test_a_single_server_is_not_taken_for_a_cluster(redis_url: str) -> None:
    with pytest.raises(CheckpointError, match="cluster support disabled"):
        async with open_redis(redis_url.replace("redis://", "redis+cluster://")):
            pass


async def test_what_is_encrypted_is_read_in_a_cluster_and_the_key_changes(cluster: list[RedisProcess]) -> None:
    url, secret = url_of(cluster, "safe"), "correct-horse"
    old, new = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)
    document = canvas({"ask": form("size", downstream=["out"]), **out("{sys.query} {ask@size}")})
    plan = compile_canvas(document, CATALOG)
    async with open_store(url, keys=[old]) as store:
        async for _ in Runner(plan, fake_services(), store=store).start("anna", {"query": f"{secret} " * 300}):
            pass
    async with open_items(url, keys=[old]) as items:
        await items.aput(("memories", "anna"), "1", {"text": secret})
    async with open_journal(url, keys=make_key_ring([old])) as journal:
        await journal.begin(head("r1"))
        await journal.append("r1", [secret.encode()], is_last=True)
        assert await read(journal, "r1", 0, 1) == [(1, secret.encode())]
    stored = contents_of(master_of(cluster, "safe"), "{safe}")
    assert len(stored) > 10
    assert secret not in str(stored)
    async with open_store(url, keys=[new, old]) as store:
        run = Runner(plan, fake_services(), store=store).resume("anna", {"size": 7})
        async for _ in run:
            pass
        assert run.answer == f"{secret} " * 300 + " 7"
    async with open_items(url, keys=[new, old]) as items:
        (item,) = await items.asearch(("memories",))
        assert item.value == {"text": secret}


async def test_memories_are_found_in_a_cluster(cluster: list[RedisProcess]) -> None:
    async with open_items(url_of(cluster, NAME)) as items:
        await items.aput(("memories", "anna"), "1", {"text": "tea"})
        (item,) = await items.asearch(("memories",))
        assert item.value == {"text": "tea"}


async def test_a_deployment_survives_its_master(cluster: list[RedisProcess]) -> None:
    """A run, the events of another one, and the queue go on with the replica. Nobody waits until it is the master."""
    url, master, replica = url_of(cluster, NAME), master_of(cluster, NAME), cluster[3]
    async with open_journal(url) as journal, open_queue(url) as queue:
        await journal.begin(head("other"))
        await queue.put("run", b"data")

        async def fail_over() -> None:
            written = master.request("INFO", "replication")["master_repl_offset"]
            while replica.request("INFO", "replication")["slave_repl_offset"] < written:
                await asyncio.sleep(0.01)
            master.kill()

        assert await play_and_check(url, CHAIN, {"first": do_nothing, "second": fail_over}) == ""
        await journal.append("other", [b"one"], is_last=True)
        assert await read(journal, "other", 0, 1) == [(1, b"one")]
        async with asyncio.timeout(20):
            delivery = await queue.take()
        assert delivery is not None
        assert (delivery.run_id, await queue.read("run")) == ("run", b"data")
    master.start()
