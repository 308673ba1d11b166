"""Says that the datasets of the embedded knowledge base stay plain although stored data is encrypted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.server.assembly.knowledge_sources import embedded_path

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

logger = logging.getLogger(__name__)


def check_plain_datasets(settings: Settings) -> list[CheckResult]:
    """Return a note if the settings encrypt and the file with the datasets exists, which is not encrypted."""
    if not settings.encryption_keys:
        return []
    try:
        path = embedded_path(settings.knowledge.url).expanduser()
    except SettingsError:  # another server has the datasets
        return []
    if not path.exists():
        return []
    advice = "Their texts, words and vectors can be read by everybody who can read the file: encrypt the disk."
    return [CheckResult(True, f"the datasets in {str(path)!r} are not encrypted", advice)]


def report_plain_datasets(settings: Settings) -> None:
    """Log at the start what stays plain."""
    for result in check_plain_datasets(settings):
        logger.warning("%s%s. %s", result.what[0].upper(), result.what[1:], result.advice)
