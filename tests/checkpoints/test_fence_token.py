from __future__ import annotations

from ragflow_lg.checkpoints.fence_token import FENCED, RENEWED


def test_what_refuses_a_write_can_stand_in_the_scripts_of_every_store() -> None:
    """Lua and SQL have both texts between single quotes, and one must not be taken for the other."""
    assert all("'" not in text and "\\" not in text for text in (FENCED, RENEWED))
    assert FENCED not in RENEWED
    assert RENEWED not in FENCED
