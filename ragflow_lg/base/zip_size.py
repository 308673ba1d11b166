"""The size of a compressed office document after decompression, checked before anything is decompressed."""

from __future__ import annotations

import io
import zipfile

from ragflow_lg.base.errors import ServiceError

MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""Maximum total size of the decompressed parts of a file."""

MAX_TREE_BYTES = 64 * 1024 * 1024
"""Maximum size of a part that is parsed as a tree, which takes about twenty times its size in memory."""

_STREAMED_PARTS = ("xl/worksheets/", "xl/sharedStrings.xml")


def check_unpacked_size(content: bytes) -> None:
    """Check the sizes that the parts of a file declare. Python's ``zipfile`` never reads more than those.

    Raises:
        ServiceError: if a part, or all of them together, are too large.
        zipfile.BadZipFile: if this is not a ZIP archive.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
    size = sum(part.file_size for part in parts)
    if size > MAX_UNPACKED_BYTES:
        raise ServiceError(f"its decompressed size of {size:,} bytes exceeds {MAX_UNPACKED_BYTES:,}")
    for part in parts:
        is_tree = part.filename.lower().endswith((".xml", ".rels")) and not part.filename.startswith(_STREAMED_PARTS)
        if is_tree and part.file_size > MAX_TREE_BYTES:
            raise ServiceError(f"the decompressed size of a part, {part.file_size:,} bytes, exceeds {MAX_TREE_BYTES:,}")
