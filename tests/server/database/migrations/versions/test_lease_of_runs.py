from ragflow_lg.server.database.migrations.versions import lease_of_runs
from tests.server.database.migrations.versions.columns_of_runs import check_both_ways


def test_it_goes_both_ways_and_keeps_the_runs_there_are() -> None:
    check_both_ways(lease_of_runs, "lease_token", 0)
