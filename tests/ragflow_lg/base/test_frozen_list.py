import json

import orjson

from ragflow_lg.base.frozen_list import SealedList


def test_it_is_json_like_any_list() -> None:
    sealed = SealedList([1, SealedList(["a"])])
    assert sealed == [1, ["a"]]
    assert json.loads(json.dumps(sealed)) == orjson.loads(orjson.dumps(sealed)) == [1, ["a"]]
    assert sealed.digest == ""
