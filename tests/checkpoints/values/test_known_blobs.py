import pytest

from ragflow_lg.checkpoints.values import known_blobs
from ragflow_lg.checkpoints.values.known_blobs import KnownBlobs


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch) -> KnownBlobs:
    """Remember twelve blobs, of which four may be unused in the last two writes."""
    monkeypatch.setattr(known_blobs, "REMEMBERED_BLOBS", 12)
    monkeypatch.setattr(known_blobs, "RECENT_BLOBS", 4)
    monkeypatch.setattr(known_blobs, "RECENT_WRITES", 2)
    return KnownBlobs()


def write(blobs: KnownBlobs, thread: str, *digests: str) -> None:
    blobs.remember(thread, dict.fromkeys(digests, 100))
    blobs.end_write(thread)


def test_blobs_are_known_in_their_thread_until_it_is_forgotten(blobs: KnownBlobs) -> None:
    write(blobs, "t", "a")
    blobs.remember("t", {"a": 0, "unread": 0})
    assert [blobs.of_thread("t").use(digest) for digest in ("a", "unread", "b")] == [100, 0, None]
    assert blobs.of_thread("other").use("a") is None
    assert len(blobs) == 2
    blobs.forget("t")
    assert blobs.of_thread("t").use("a") is None
    assert len(blobs) == 0


def test_what_writes_have_not_used_for_a_while_is_forgotten(blobs: KnownBlobs) -> None:
    write(blobs, "t", "used", "unused")
    for number in range(10):
        assert blobs.of_thread("t").use("used") == 100
        write(blobs, "t", f"{number}a", f"{number}b")
    assert blobs.of_thread("t").use("unused") is None
    assert len(blobs) <= 12


def test_a_thread_with_few_blobs_forgets_none(blobs: KnownBlobs) -> None:
    write(blobs, "t", "a", "b", "c")
    for _ in range(100):
        write(blobs, "t")
    assert blobs.of_thread("t").use("a") == 100


def test_a_thread_that_uses_many_blobs_forgets_none_of_them(blobs: KnownBlobs) -> None:
    used = [str(number) for number in range(6)]
    write(blobs, "t", *used)
    for _ in range(100):
        assert [blobs.of_thread("t").use(digest) for digest in used] == [100] * 6
        write(blobs, "t")


def test_the_number_of_blobs_is_limited(blobs: KnownBlobs) -> None:
    for number in range(100):
        blobs.remember("t", {f"{number}": 0})  # only read
    assert len(blobs) <= 12
    for number in range(100):
        write(blobs, f"t{number}", "a", "b")
    assert len(blobs) <= 12
    assert blobs.of_thread("t99").use("a") == 100
    assert blobs.of_thread("t").use("99") is None
