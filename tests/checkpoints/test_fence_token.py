from ragflow_lg.checkpoints.fence_token import EPOCH_MISMATCH, LEASE_MISMATCH


def test_the_texts_of_rejections_fit_into_the_scripts_of_every_store() -> None:
    """Lua and SQL quote both texts with single quotes, and the saver tells them apart by search."""
    assert all("'" not in text and "\\" not in text for text in (LEASE_MISMATCH, EPOCH_MISMATCH))
    assert LEASE_MISMATCH not in EPOCH_MISMATCH
    assert EPOCH_MISMATCH not in LEASE_MISMATCH
