from checkpoints import Store
from ragflow_lg.sessions import RunRecord, SessionStore
from tests.stores import OpenStore


async def test_every_store_is_one(reopen: OpenStore) -> None:
    async with reopen() as store:
        accepted: SessionStore = store
        assert isinstance(accepted, Store)
    assert RunRecord("r", "s").status == "running"
