import base64
import logging
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.assembly.knowledge_sources import check_plain_datasets, report_plain_datasets
from ragflow_lg.server.settings import Settings

KEYS = [{"id": "k", "key": base64.b64encode(b"k" * 32).decode()}]


def settings_of(url: str, keys: Any = KEYS) -> Settings:
    return Settings.model_validate({"encryption_keys": keys, "knowledge": {"url": url}})


def test_a_server_that_encrypts_says_at_its_start_that_datasets_are_plain(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/k.db"
    assert check_plain_datasets(settings_of(url)) == []
    (tmp_path / "k.db").touch()
    assert check_plain_datasets(settings_of(url, [])) == []
    assert check_plain_datasets(settings_of("elasticsearch+http://127.0.0.1:9200")) == []
    with caplog.at_level(logging.WARNING):
        report_plain_datasets(settings_of(url))
    assert caplog.messages == [
        f"The datasets in '{tmp_path}/k.db' are not encrypted. Their texts, words and vectors can be read by everybody"
        " who can read the file: encrypt the disk."
    ]
