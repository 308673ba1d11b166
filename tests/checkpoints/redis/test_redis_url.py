import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.redis.redis_client import check_server
from ragflow_lg.checkpoints.redis.redis_url import create_client
from tests.harness.rows import each_row


@each_row(
    ("url", "reason"),
    [
        ("redis://host:port", "its port must be a number"), ("redis://host:99999", "its port must be a number"),
        ("redis+sentinel://127.0.0.1:1", "has no service name"),
        ("redis+sentinel://h:x/service", "its port must be a number"),
        ("redis+sentinel://h:99999/service", "its port must be a number"),
        ("redis+sentinel://h:1/s/db", "'db' .* is not a number"),
        ("redis+cluster://h:x/shop", "its port must be a number"),
        ("redis+cluster://h:1/a{b", "the name 'a{b' may have"),
    ],
)  # fmt: skip
def test_an_invalid_url_is_reported(url: str, reason: str) -> None:
    with pytest.raises(CheckpointError, match=f"is invalid: .*{reason}"):
        create_client(url)


async def test_an_unreachable_sentinel_is_reported_in_words() -> None:
    with pytest.raises(CheckpointError, match=r"No master found for 'main': no Sentinel answers") as error:
        await check_server("redis+sentinel://127.0.0.1:1/main")
    assert "<" not in str(error.value)
