import pytest
from sqlalchemy import text

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from tests.harness.rows import each_row


async def test_a_key_is_valid_until_revoked_and_only_its_digest_is_stored(database: Database) -> None:
    keys = KeyRepository(database)
    key = await keys.create("t", 1, name="laptop", compat="0.24")
    beta = await keys.create("t", 2, kind="beta")
    row = await keys.find(key, 3)
    assert row is not None
    assert (row.tenant, row.name, row.compat, row.prefix) == ("t", "laptop", "0.24", key[:16])
    assert key.startswith("ragflow-")
    assert await keys.find(beta, 3) is None
    assert await keys.find(beta, 3, "beta") is not None
    assert [await keys.find(odd, 3) for odd in ("", key[:-1], key + "x", "x" * 10_000, row.digest)] == [None] * 5
    assert (await keys.revoke(key[:16], 3)).revoke_ms == 3
    assert await keys.find(key, 3) is None
    assert [row.prefix for row in await keys.list()] == [key[:16], beta[:16]]
    assert await keys.count() == 2
    async with database.reading() as db:
        raw = repr([tuple(row) for row in await db.execute(text("SELECT * FROM api_keys"))])
    assert key[:16] in raw
    assert key not in raw


async def test_a_key_is_revoked_by_a_unique_name(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(("same-1-and-more", "same-2-and-more", "other-and-more"))
    monkeypatch.setattr("secrets.token_urlsafe", lambda nbytes=0: next(tokens))
    async with open_database(database_url) as database:
        keys = KeyRepository(database)
        first = await keys.create("t", 1, name="shop")
        second = await keys.create("t", 2, name="shop")
        await keys.create("t", 3, name="desk")
        for which, problem in (
            ("ragflow-same", "Several keys begin with 'ragflow-same'; add more characters"),
            ("shop", "Several keys are named 'shop'; enter the beginning of one"),
        ):
            with pytest.raises(RequestError, match=problem):
                await keys.revoke(which, 4)
        assert (await keys.revoke("desk", 4)).name == "desk"
        await keys.revoke("ragflow-same-1", 4)
        assert (await keys.find(first, 5), (await keys.revoke("shop", 5)).prefix) == (None, second[:16])


@each_row(("tenant", "name"), [(" ", ""), ("t" * 65, ""), ("t", "n" * 256)])
async def test_tenant_and_name_have_a_maximum_length(database: Database, tenant: str, name: str) -> None:
    with pytest.raises(RequestError, match="characters"):
        await KeyRepository(database).create(tenant, 1, name=name)


async def test_an_expired_key_is_not_found(database: Database) -> None:
    keys = KeyRepository(database)
    key = await keys.create("t", 1, kind="beta", agents=["a", "b"], expire_ms=10)
    row = await keys.find(key, 9, "beta")
    assert row is not None
    assert (row.agents, row.expire_ms) == ("a,b", 10)
    assert (await keys.find(key, 10, "beta"), await keys.get(row.id, 10)) == (None, None)
    assert await keys.get(row.id, 9) is not None
    for kind, agents in (("api", ["a"]), ("beta", ["a" * 32] * 32)):
        with pytest.raises(RequestError, match="limited to"):
            await keys.create("t", 1, kind=kind, agents=agents)
