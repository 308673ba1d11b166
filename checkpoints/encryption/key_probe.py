"""Finds out whether the settings have the keys with which the newest sessions are encrypted."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import CheckpointError, SessionKeyError
from ragflow_lg.base.tasks import running
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.checkpoints.steps.checkpoint_texts import stored_texts
from ragflow_lg.checkpoints.steps.saver_operations import key_config

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing
    from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey
    from ragflow_lg.checkpoints.store import Store

MAX_SESSIONS = 20
MAX_CHECKPOINTS = 1000

logger = logging.getLogger(__name__)


async def probe_keys(store: Store) -> list[CheckResult]:
    """Check the newest checkpoints of the newest sessions.

    Raises:
        CheckpointError: if the store fails.
    """
    problems: Counter[str] = Counter()
    keys = await _newest_keys(store)
    for key in keys:
        try:
            with store.saver.values.errors.translate_read():
                packed = await store.saver.inner.aget_tuple(key_config(key))
                if packed is not None:
                    stored_texts(packed)
        except SessionKeyError as error:
            problems[str(error)] += 1
        except CheckpointError:
            continue  # damaged
    return [
        CheckResult(False, f"{count} of the newest {len(keys)} sessions cannot be decrypted", problem)
        for problem, count in problems.items()
    ]


def describe_keys(keys: KeyRing | None) -> list[CheckResult]:
    """Return which key encrypts, if one does."""
    return [CheckResult(True, f"sessions are encrypted with the key {keys.current!r}")] if keys is not None else []


async def _newest_keys(store: Store) -> list[CheckpointKey]:
    threads: dict[str, CheckpointKey] = {}
    async with aclosing(cast("Any", store.saver.list_keys(None, limit=MAX_CHECKPOINTS))) as keys:
        async for key in keys:
            threads.setdefault(key.thread, key)
            if len(threads) >= MAX_SESSIONS:
                break
    return list(threads.values())


def reporting_missing_keys(store: Store) -> AbstractAsyncContextManager[None]:
    """Log, while the block runs, whether keys are missing."""
    return running(partial(_report, store), "look for missing keys")


async def _report(store: Store) -> None:
    try:
        for result in await probe_keys(store):
            if not result.is_well:
                logger.warning("%s. %s", result.what, result.advice)
    except CheckpointError as error:
        logger.warning("The keys of stored sessions cannot be checked: %s", error)
