from ragflow_lg.services import NO_USAGE, ONE_CALL, Usage


def test_usage_adds_up() -> None:
    total = NO_USAGE.plus(Usage(10, 5, 1, 0.5)).plus(ONE_CALL)
    assert total == Usage(10, 5, 2, 0.5)
