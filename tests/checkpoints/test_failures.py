from __future__ import annotations

import pytest

from checkpoints.failures import told_plainly
from ragflow_lg.errors import CheckpointError


def test_what_a_client_raises_becomes_our_error_and_nothing_else_does() -> None:
    with pytest.raises(CheckpointError, match="fails: the disk is full") as caught, told_plainly(OSError):
        raise OSError("the disk is full")
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(CheckpointError, match=r"fails: No master: none of its Sentinels"), told_plainly(OSError):
        raise OSError("No master : <redis.client.Redis(<...>)> - network:ConnectionError")
    with pytest.raises(KeyError), told_plainly(OSError):
        raise KeyError
