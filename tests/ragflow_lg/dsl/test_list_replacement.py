from ragflow_lg.component.state import append
from ragflow_lg.dsl.list_replacement import replaced, replacing


def test_a_list_takes_the_place_of_another_and_is_plain_json() -> None:
    assert replacing([1]) == {"__replace__": [1]}
    assert append([1], replacing([2])) == [2]
    assert append([1], [2]) == [1, 2]
    assert replaced([{"__replace__": []}]) is None
