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
