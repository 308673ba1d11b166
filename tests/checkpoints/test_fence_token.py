from ragflow_lg.checkpoints.fence_token import EPOCH_MISMATCH, LEASE_MISMATCH


def test_what_refuses_a_write_can_stand_in_the_scripts_of_every_store() -> None:
    """Lua and SQL have both texts between single quotes, and one must not be taken for the other."""
    assert all("'" not in text and "\\" not in text for text in (LEASE_MISMATCH, EPOCH_MISMATCH))
    assert LEASE_MISMATCH not in EPOCH_MISMATCH
    assert EPOCH_MISMATCH not in LEASE_MISMATCH
