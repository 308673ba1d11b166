"""The report writer: it loads the images of a text, and writes the file in a worker process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct

from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.integrations.documents.report_tasks import build_report, list_images
from ragflow_lg.integrations.documents.reports_section import ReportsSection
from ragflow_lg.services.reports import ImageLoader, ReportRequest, WrittenReport
from ragflow_lg.services.workers import Workers

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services

MAX_LAYOUT_CHARS = 2_000
"""Maximum length of a header, a footer or a watermark."""


class WorkerReports(Struct, frozen=True):
    """The implementation of `ragflow_lg.services.reports.Reports`."""

    settings: ReportSettings
    workers: Workers

    @property
    def fetches_images(self) -> bool:
        """Whether images at web addresses may be fetched."""
        return self.settings.fetch_images

    @property
    def inline_bytes(self) -> int:
        """Maximum size of a file that the description of its download contains as well."""
        return self.settings.inline_bytes

    async def write(self, request: ReportRequest, load_image: ImageLoader) -> WrittenReport:
        """Write a file."""
        require("spreadsheets" if request.format == "xlsx" else "reports", f"Writing {request.format.upper()} files")
        if len(request.text) > self.settings.max_chars:
            raise ServiceError(
                f"The text has {len(request.text):,} characters; a file can have {self.settings.max_chars:,}."
            )
        layout = request.layout
        if any(len(text) > MAX_LAYOUT_CHARS for text in (layout.header, layout.footer, layout.watermark)):
            raise ServiceError(f"Header, footer and watermark can have at most {MAX_LAYOUT_CHARS:,} characters.")
        images, warnings = await self._load_images(request, load_image)
        more, _, content = (await self.workers.run(build_report, request, images, self.settings)).partition(b"\n")
        return WrittenReport(content, (*warnings, *orjson.loads(more)))

    async def _load_images(self, request: ReportRequest, load_image: ImageLoader) -> tuple[dict[str, bytes], list[str]]:
        """Return the images by address, and warnings about those that are shown as their text."""
        if request.format not in ("pdf", "docx", "html") or "![" not in request.text:
            return {}, []
        found = await self.workers.run(list_images, request.text)
        addresses = [address for address in found if not address.startswith("data:")]
        images: dict[str, bytes] = {}
        size, missing = 0, addresses[self.settings.max_images :]
        for address in addresses[: self.settings.max_images]:
            try:
                content = await load_image(address)
            except RagflowLgError:
                content = None
            if content is None or size + len(content) > self.settings.image_bytes:
                missing.append(address)
            else:
                images[address] = content
                size += len(content)
        if not missing:
            return images, []
        named = ", ".join(address[:200] for address in missing[:5]) + (" …" if len(missing) > 5 else "")
        return images, [f"These images are not shown, because they are not files of the agent, or too large: {named}"]


@asynccontextmanager
async def open_reports(settings: Settings, services: Services) -> AsyncGenerator[WorkerReports]:
    """Yield the writer of the settings."""
    yield WorkerReports(settings.section(ReportsSection).settings, services.workers)


async def probe_fonts(settings: Settings) -> list[CheckResult]:
    """Report the languages that PDF files cannot show; none if the packages for documents are not installed."""
    try:
        require("reports", "Writing PDF files")
    except SettingsError:
        return []
    from ragflow_lg.integrations.documents.languages import LANGUAGES, advise_fonts, language_of
    from ragflow_lg.integrations.documents.pdf_file import find_missing_languages

    missing = find_missing_languages(settings.section(ReportsSection).settings)
    if not missing:
        return [CheckResult(True, f"PDF files have fonts for {', '.join(each.name for each in LANGUAGES.values())}")]
    names = ", ".join(LANGUAGES[language_of(character)].name for character in missing)
    advice = f"If agents write such texts, install {advise_fonts(missing)}, or set font_folders in [reports]."
    return [CheckResult(True, f"PDF files show boxes instead of {names}", advice)]
