from pathlib import Path

import pytest

from ragflow_lg.adapters.elasticsearch.dictionaries import Dictionaries, read_dictionaries
from ragflow_lg.base.errors import SettingsError


def test_names_and_synonyms_are_read(tmp_path: Path) -> None:
    (tmp_path / "ner.json").write_text('{"acme": "corp", "odd": 1}')
    (tmp_path / "synonym.json").write_text('{"Bike": ["bicycle", 2], "car": "auto", "odd": 1}')
    assert read_dictionaries(tmp_path) == Dictionaries({"acme": "corp"}, {"bike": ["bicycle"], "car": ["auto"]})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "neither ner.json nor synonym.json"),
        ("{", "is not JSON"),
        ("[" * 200_000, "is not JSON"),
        ("[]", "not a JSON object"),
    ],
    ids=["missing", "cut", "deep", "list"],
)
def test_invalid_dictionaries_are_rejected(tmp_path: Path, content: str | None, text: str) -> None:
    if content is not None:
        (tmp_path / "ner.json").write_text(content)
    with pytest.raises(SettingsError, match=text):
        read_dictionaries(tmp_path)
