from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ragflow_lg.checkpoints import backends, items, open_items, open_store
from ragflow_lg.checkpoints.backends import probe_store, store_exists
from tests.harness.rows import each_row


@each_row(
    ("url", "advice"),
    [
        ("redis://127.0.0.1:1", "Start the server"), ("ftp://x", "Use memory"), ("", "Use memory"),
        ("redis://h:x", "Correct it: memory://"),
        ("sqlite://a.db", "three slashes"), ("sqlite:///", "has no file name"),
    ],
)  # fmt: skip
async def test_an_unusable_url_is_reported_with_advice(url: str, advice: str) -> None:
    (result,) = await probe_store(url, ttl_s=60)
    assert not result.is_well
    assert advice in result.advice


async def test_a_probe_rejects_another_file_and_accepts_memory(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Not a database. " * 100)
    (result,) = await probe_store(f"sqlite:///{path}", ttl_s=60)
    assert "not a session store" in result.what
    (result,) = await probe_store("memory://", ttl_s=60)
    assert result.is_well


@each_row("use", [open_items, open_store, store_exists, partial(probe_store, ttl_s=60)])
async def test_a_kind_that_is_not_provided_for_is_named(use: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (backends, items):
        monkeypatch.setattr(module, "store_kind", Mock(return_value="cassandra"))
    opened = use("redis://127.0.0.1:1")
    with pytest.raises(AssertionError, match="cassandra"):
        await (opened.__aenter__() if hasattr(opened, "__aenter__") else opened)
