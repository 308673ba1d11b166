from ragflow_lg.server.cli.options import Events


def test_events_are_named_as_they_are_typed() -> None:
    assert [str(kind) for kind in Events] == ["json", "pretty"]
