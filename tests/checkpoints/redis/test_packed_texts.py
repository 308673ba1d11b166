import os
import zlib

import pytest

from ragflow_lg.checkpoints.redis.redis_tables import LARGE_BYTES, pack, unpack


def test_only_large_texts_that_become_shorter_are_compressed() -> None:
    small, large, random = b'"x"', b'["ab"]' * LARGE_BYTES, os.urandom(LARGE_BYTES).replace(b"\0", b"1")
    assert (pack(small), pack(random)) == (small, random)
    packed = pack(large)
    assert len(packed) < len(large) / 50
    for text in (small, large, random):
        assert unpack(pack(text), len(text)) == text


@pytest.mark.parametrize("stored", [b"\0z", b"\0zz", pack(b"a" * LARGE_BYTES)[:-1], b"\0z" + zlib.compress(bytes(99))])
def test_damaged_and_too_large_texts_are_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match="it "):
        unpack(stored, 98)
