from ragflow_lg.checkpoints.steps.preconditions import (
    BLOB_MISSING,
    CHECKPOINT_MISSING,
    LEASE_MISSING,
    LEASE_TAKEN,
    PART_MISSING,
)

MESSAGES = (LEASE_TAKEN, LEASE_MISSING, BLOB_MISSING, CHECKPOINT_MISSING, PART_MISSING)


def test_the_messages_fit_into_the_scripts_of_every_store() -> None:
    """Lua quotes the messages with single quotes, and the saver tells them apart by search."""
    assert all("'" not in text and "\\" not in text for text in MESSAGES)
    assert all(one is other or one not in other for one in MESSAGES for other in MESSAGES)
