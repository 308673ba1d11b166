import pickle

import pytest

from ragflow_lg.checkpoints.values import known_blobs
from ragflow_lg.checkpoints.values.known_blobs import KnownBlobs


def test_blobs_are_known_in_their_thread_until_it_is_forgotten() -> None:
    blobs = KnownBlobs()
    blobs.remember("t", ["a"])
    blobs.remember("t", ["b"])
    assert (blobs.of_thread("t"), blobs.of_thread("other")) == ({"a", "b"}, set())
    blobs.forget("t")
    assert blobs.of_thread("t") == set()


def test_the_number_of_blobs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_blobs, "REMEMBERED_BLOBS", 12)
    blobs = KnownBlobs()
    for number in range(100):
        blobs.remember("t", [f"{number}"])
    assert len(blobs.of_thread("t")) <= 12
    for number in range(100):
        blobs.remember(f"t{number}", "ab")
    assert [thread for thread in range(100) if blobs.of_thread(f"t{thread}")] == list(range(94, 100))
    for number in range(94, 99):
        blobs.forget(f"t{number}")
    blobs.remember("other", [f"{number}" for number in range(10)])
    assert len(blobs.of_thread("t99")) == 2, "what is forgotten does not count"


def test_a_thread_without_blobs_takes_no_memory() -> None:
    blobs = KnownBlobs()
    for number in range(100):
        blobs.remember(f"t{number}", ())
    assert pickle.dumps(blobs) == pickle.dumps(KnownBlobs())
