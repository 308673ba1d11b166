import psycopg
import pytest
import redis.exceptions
from psycopg.pq import DiagnosticField

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.failures import plain_reason, translate_errors


def test_only_exceptions_of_the_client_become_checkpoint_errors() -> None:
    with pytest.raises(CheckpointError, match="failed: the disk is full") as error, translate_errors(OSError):
        raise OSError("the disk is full")
    assert isinstance(error.value.__cause__, OSError)
    with pytest.raises(CheckpointError, match=r"failed: No master: no Sentinel answers"), translate_errors(OSError):
        raise OSError("No master : <redis.client.Redis(<...>)> - network:ConnectionError")
    with pytest.raises(KeyError), translate_errors(OSError):
        raise KeyError


def test_the_values_of_a_row_are_not_reported() -> None:
    primary: dict[int, bytes | None] = {DiagnosticField.MESSAGE_PRIMARY: b"it exists already"}
    error = psycopg.Error("it exists already\nDETAIL:  Key (name)=(secret).", info=primary)
    assert plain_reason(error) == "it exists already"
    assert plain_reason(psycopg.Error("the connection is closed")) == "the connection is closed"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (redis.exceptions.ConnectionError("Error 111 connecting to 10.0.0.1:6379."), "it cannot be reached."),
        (redis.exceptions.TimeoutError("Timeout reading from cache.internal:6379"), "it did not answer in time."),
        (ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 6379)"), "it cannot be reached."),
        (redis.exceptions.ResponseError("MOVED 7 10.0.0.1:6379"), "MOVED 7 …"),
        (redis.exceptions.ResponseError("try cache.internal:6379 or [fd00::1]:6379"), "try … or …"),
        (redis.exceptions.ResponseError("OOM command not allowed"), "OOM command not allowed"),
        (FileNotFoundError(2, "No such file or directory", "/var/lib/x.db"), "No such file or directory"),
    ],
)
def test_addresses_are_logged_and_not_reported(error: Exception, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    assert plain_reason(error) == reason
    with caplog.at_level("INFO"), pytest.raises(CheckpointError), translate_errors(Exception):
        raise error
    assert str(error) in caplog.text
