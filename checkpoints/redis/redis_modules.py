"""The modules that a Redis server needs for sessions."""

from __future__ import annotations

from typing import Any, cast

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.failures import plain_reason
from ragflow_lg.checkpoints.redis.redis_url import create_client
from ragflow_lg.checkpoints.store_url import redact_url

MODULES = ("search", "ReJSON")
START_ADVICE = "Start the server, or correct the URL, user and password."


def missing_modules(url: str) -> list[str]:
    """Return the required modules that are missing from the server at ``url``.

    Raises:
        CheckpointError: if the server does not respond.
    """
    import redis

    try:
        with create_client(url, redis.Redis, socket_timeout=5) as client:
            modules = cast("list[Any]", client.module_list())
    except (redis.RedisError, OSError) as error:
        reason = plain_reason(error).rstrip(".")
        raise CheckpointError(
            f"The Redis server at {redact_url(url)} does not answer: {reason}. {START_ADVICE}"
        ) from error
    names = {str(_module_name(module)).lower() for module in modules}
    return [module for module in MODULES if module.lower() not in names]


def _module_name(module: Any) -> Any:
    fields = cast("dict[Any, Any]", module)
    name = fields.get(b"name") or fields.get("name")
    return name.decode() if isinstance(name, bytes) else name
