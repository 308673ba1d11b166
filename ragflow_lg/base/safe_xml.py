"""XML from services: parsed without loading anything, without expanding entities, and with a bounded depth."""

from __future__ import annotations

import importlib
from typing import Any

MAX_XML_CHARS = 8 * 1024 * 1024


def parse_xml(text: str, root: str) -> Any:
    """Return the root element (of lxml), whose name must be ``root``.

    This function is CPU-bound; call it in a thread.

    Raises:
        ValueError: if the text is too long, not XML or another document, or declares entities.
    """
    if len(text) > MAX_XML_CHARS:
        raise ValueError(f"{len(text):,} characters; the limit is {MAX_XML_CHARS:,}")
    etree: Any = importlib.import_module("lxml.etree")  # slow to import and untyped
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, remove_comments=True
    )
    try:
        element = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"invalid XML: {str(error)[:200]}") from None
    declared = element.getroottree().docinfo.internalDTD
    if element.tag != root or (declared is not None and any(True for _ in declared.iterentities())):
        raise ValueError("an unexpected XML document")
    return element
