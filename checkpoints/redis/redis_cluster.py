"""The master in a Redis Cluster that holds a deployment.

A step is written by one script, which may only use keys of one slot. So all keys of a deployment have the same hash tag
and lie in one slot, and its clients talk to the master of that slot as to a single server. Deployments with different
names are spread over the masters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

Place = tuple[str, int]


class SlotMaster:
    """Finds the master of a slot, in place of a Sentinel."""

    def __init__(self, places: Sequence[Place], options: Mapping[str, Any]) -> None:
        """Initialize. ``options`` are those of all connections."""
        self._seeds = list(places)
        self._nodes: list[Place] = []
        self._options = dict(options)

    def client_of(self, name: str, pool: Any, options: Mapping[str, Any]) -> Any:
        """Return a client for the slot of a name."""
        return Redis.from_pool(pool(name, self, **{**self._options, **options}))

    async def discover_master(self, service_name: str) -> Place:
        """Return the address of the master of the slot of a name.

        Raises:
            ConnectionError: if no node answers, or none holds the slot.
        """
        problem: Exception | None = None
        for host, port in dict.fromkeys((*self._nodes, *self._seeds)):
            options: Any = {**self._options, "retry": Retry(NoBackoff(), 0)}  # there are other nodes to ask
            node: Any = Redis(host=host, port=port, **options)
            try:
                slots = await node.execute_command("CLUSTER", "SLOTS")
            except (RedisError, OSError) as error:
                problem = error
                continue
            finally:
                await node.aclose()
            if (found := _master_of(slots, service_name, host)) is not None:
                self._nodes = [_place(node, host) for _, _, *nodes in slots for node in nodes]
                return found
        raise _not_found(service_name, problem)

    async def discover_slaves(self, service_name: str) -> Sequence[Place]:
        """Return no replicas: everything is read from the master."""
        return ()


def _master_of(slots: Sequence[Any], name: str, asked_host: str) -> Place | None:
    """Return the master of a name's slot from the answer to ``CLUSTER SLOTS``."""
    slot = key_slot(name.encode())
    for first, last, master, *_ in slots:
        if first <= slot <= last:
            return _place(master, asked_host)
    return None


def _place(node: Sequence[Any], asked_host: str) -> Place:
    """Return a node's address. A node that does not know its own has the one by which it was asked."""
    host = (node[0] or b"").decode() if isinstance(node[0], bytes | None) else str(node[0])
    return host or asked_host, int(node[1])


def _not_found(name: str, problem: Exception | None) -> RedisError:
    if problem is not None and not isinstance(problem, RedisConnectionError | OSError):
        return RedisError(str(problem))  # such as a server that is no cluster
    return RedisConnectionError(f"No node of the cluster has the slot of {name!r}")
