import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.checkpoints import Store
from ragflow_lg.services.sessions import LEASE_TOKEN, RunRecord, SessionStore, hold_lease, with_lease_token
from tests.stores import OpenStore


async def test_every_store_implements_the_protocol(reopen: OpenStore) -> None:
    async with reopen() as store:
        accepted: SessionStore = store
        assert isinstance(accepted, Store)
    assert RunRecord("r", "s").status == "running"


async def test_a_session_has_one_lease_at_a_time(reopen: OpenStore) -> None:
    async with reopen() as store:
        async with hold_lease(store.leases, "anna") as token:
            with pytest.raises(ConflictError):
                await store.leases.acquire("anna", lambda: None)
        async with hold_lease(store.leases, "anna") as later:
            assert later > token


def test_a_lease_token_is_added_to_the_config() -> None:
    config = with_lease_token({"tags": ["a"], "configurable": {"thread_id": "t"}}, 3)
    assert config == {"tags": ["a"], "configurable": {"thread_id": "t", LEASE_TOKEN: 3}}
