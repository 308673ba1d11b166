from __future__ import annotations

from dataclasses import dataclass

from ragflow_lg.checkpoints.serializer import plain_serializer


@dataclass
class Named:
    name: str


def test_objects_come_back_as_data() -> None:
    serializer = plain_serializer()
    value = serializer.loads_typed(serializer.dumps_typed({"owner": Named("a")}))
    assert isinstance(value["owner"], dict)
