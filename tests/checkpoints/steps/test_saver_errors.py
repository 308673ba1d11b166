import pytest

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.checkpoints.steps.preconditions import LEASE_TAKEN
from ragflow_lg.checkpoints.steps.saver_errors import SaverErrors

ERRORS = SaverErrors((OSError,))


def test_failures_of_the_store_say_what_could_not_be_done() -> None:
    with pytest.raises(CheckpointError, match="cannot be deleted: the disk is full"), ERRORS.translate("deleted"):
        raise OSError("the disk is full")
    with pytest.raises(CheckpointError, match="cannot be read: the disk is full"), ERRORS.translate_read():
        raise OSError("the disk is full")


def test_a_lost_lease_is_reported_as_a_busy_session() -> None:
    with pytest.raises(SessionBusyError, match="Another runner"), ERRORS.translate("written"):
        raise OSError(LEASE_TAKEN)


def test_only_readers_take_other_exceptions_for_damage() -> None:
    with pytest.raises(CheckpointError, match=r"damaged in its store \(KeyError: 'v'\)"), ERRORS.translate_read():
        raise KeyError("v")
    with pytest.raises(KeyError), ERRORS.translate("deleted"):
        raise KeyError("v")
