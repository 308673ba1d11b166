import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.services.sessions import hold_lease
from tests.stores import OpenStore


async def test_a_session_has_one_lease_at_a_time(reopen: OpenStore) -> None:
    async with reopen() as store:
        async with hold_lease(store.leases, "anna") as token:
            with pytest.raises(ConflictError):
                await store.leases.acquire("anna", lambda: None)
        async with hold_lease(store.leases, "anna") as later:
            assert later > token
