from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.key_repository import KeyRepository
from tests.server.database.rows import opened


async def test_a_key_holds_until_it_is_revoked_and_stands_nowhere(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        keys = KeyRepository(database)
        key = await keys.create("t", 1, name="laptop", compat="0.24")
        beta = await keys.create("t", 2, kind="beta")
        found = await keys.find(key)
        assert found is not None
        assert (found.tenant, found.name, found.compat, found.prefix) == ("t", "laptop", "0.24", key[:16])
        assert key.startswith("ragflow-")
        assert await keys.find(beta) is None
        assert await keys.find(beta, "beta") is not None
        assert [await keys.find(forged) for forged in ("", key[:-1], key + "x", "x" * 10_000, found.digest)] == [
            None
        ] * 5
        assert (await keys.revoke(key[:16], 3)).revoke_ms == 3
        assert await keys.find(key) is None
        assert [row.prefix for row in await keys.list()] == [key[:16], beta[:16]]
        assert await keys.count() == 2
        async with database.reading() as reading:
            raw = repr([tuple(row) for row in await reading.execute(text("SELECT * FROM api_keys"))])
        assert key[:16] in raw
        assert key not in raw


async def test_what_names_no_single_key_revokes_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        keys = KeyRepository(database)
        one, other = await keys.create("t", 1), await keys.create("t", 1)
        for which, told in (
            ("", "no key that holds"),
            ("nothing", "no key that holds"),
            (one + "x", "no key that holds"),
            ("ragflow-", "Several keys begin with 'ragflow-'; write more of it"),
        ):
            with pytest.raises(RequestError, match=told):
                await keys.revoke(which, 2)
        await keys.revoke(one, 2)
        await keys.revoke((await keys.list())[-1].id if (await keys.find(other)) is None else other, 2)
        assert (await keys.find(one), await keys.find(other)) == (None, None)


async def test_a_key_is_revoked_by_a_name_that_one_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(("same-1-and-more", "same-2-and-more", "other-and-more"))
    monkeypatch.setattr("secrets.token_urlsafe", lambda nbytes=0: next(tokens))
    async with opened(tmp_path) as database:
        keys = KeyRepository(database)
        first = await keys.create("t", 1, name="shop")
        second = await keys.create("t", 2, name="shop")
        await keys.create("t", 3, name="desk")
        for which, told in (
            ("ragflow-same", "Several keys begin with 'ragflow-same'; write more of it"),
            ("shop", "Several keys have the name 'shop'; write the beginning of one"),
        ):
            with pytest.raises(RequestError, match=told):
                await keys.revoke(which, 4)
        assert (await keys.revoke("desk", 4)).name == "desk"
        await keys.revoke("ragflow-same-1", 4)
        assert (await keys.find(first), (await keys.revoke("shop", 5)).prefix) == (None, second[:16])


@pytest.mark.parametrize(("tenant", "name"), [(" ", ""), ("t" * 65, ""), ("t", "n" * 256)])
async def test_names_have_a_length(tmp_path: Path, tenant: str, name: str) -> None:
    async with opened(tmp_path) as database:
        with pytest.raises(RequestError, match="characters"):
            await KeyRepository(database).create(tenant, 1, name=name)
