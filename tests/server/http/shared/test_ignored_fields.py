from collections.abc import Iterator

from starlette.responses import Response

from ragflow_lg.server.http.shared.turn_sessions import HEADER, MAX_NAMED, name_ignored


def test_no_more_names_are_read_than_are_shown() -> None:
    read: list[str] = []

    def names() -> Iterator[str]:
        for number in range(100):
            read.append(f"n{number}")
            yield read[-1]

    assert name_ignored(Response(), names()).headers[HEADER] == ", ".join(read)
    assert len(read) == MAX_NAMED
