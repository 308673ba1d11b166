import json

import orjson

from ragflow_lg.base.frozen_list import FrozenList


def test_it_is_json_like_any_list() -> None:
    sealed = FrozenList([1, FrozenList(["a"])])
    assert sealed == [1, ["a"]]
    assert json.loads(json.dumps(sealed)) == orjson.loads(orjson.dumps(sealed)) == [1, ["a"]]
    assert sealed.digest == ""
