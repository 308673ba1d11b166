from dataclasses import dataclass
from typing import Any

import ormsgpack
import pytest

from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from tests.harness.rows import each_row

VALUES: list[Any] = [None, "", "a\x00ü", 1, -1.5, True, [], {}, {"a": [1, None, {"b": "c"}]}]


@dataclass
class Owner:
    name: str


@each_row("is_json", [False, True])
@each_row("value", VALUES)
def test_values_come_back(value: Any, is_json: bool) -> None:
    serializer = PlainSerializer(is_json=is_json)
    assert PlainSerializer().loads_typed(serializer.dumps_typed(value)) == value


@each_row("value", VALUES)
def test_values_of_earlier_versions_are_read(value: Any) -> None:
    assert PlainSerializer().loads_typed(("msgpack", ormsgpack.packb(value))) == value


def test_a_map_that_names_a_class_stays_a_map() -> None:
    envelope = {"lc": 2, "type": "constructor", "id": ["pathlib", "Path"], "args": ["x"]}
    for is_json in (False, True):
        assert PlainSerializer().loads_typed(PlainSerializer(is_json=is_json).dumps_typed(envelope)) == envelope


@each_row(
    ("kind", "stored"),
    [
        *[
            ("msgpack", ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(["os", "system", "true"]))))
            for code in range(8)
        ],
        ("msgpack", b"\xd6\xff\x00\x00\x00\x01"),  # a time
        ("msgpack", ormsgpack.packb({"a": [b"bytes"]})),
        ("msgpack", b"\x81\xc0\x01"),  # {None: 1}
        ("msgpack", b"\x91" * 100_000 + b"\xc0"),
        ("msgpack", b"\xdf\xff\xff\xff\xff"),
        ("msgpack", b""),
        ("json", b"[" * 100_000),
        ("json", b"[" * 100_000 + b"]" * 100_000),
        ("json", b"\xff"),
        ("json", "no bytes"),
        ("pickle", b"cos\nsystem\n(S'true'\ntR."),
        ("bytes", b"x"),
        (None, b""),
    ],
)
def test_everything_else_is_refused(kind: Any, stored: Any) -> None:
    with pytest.raises(ValueError, match=r"^it (is|contains)|its type|a name"):
        PlainSerializer().loads_typed((kind, stored))


def test_objects_are_not_written() -> None:
    serializer = PlainSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(Owner("a"))) == {"name": "a"}
