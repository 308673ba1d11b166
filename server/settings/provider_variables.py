"""What the environment says about known providers: keys and addresses."""

from __future__ import annotations

import os
import re

from ragflow_lg.adapters.known_providers import KnownProvider

_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")


def find_key(provider: KnownProvider) -> str:
    """Return the key of a provider, or ``""``."""
    return os.environ.get(provider.key, "").strip() if provider.key else ""


def find_address(provider: KnownProvider) -> str:
    """Return the address of a provider: that in the environment, the usual one, or ``""``."""
    address = os.environ.get(provider.address_variable, "").strip() if provider.key else ""
    return address or provider.base_url or (_bedrock_address() if provider.family == "bedrock" else "")


def _bedrock_address() -> str:
    named = (os.environ.get(variable, "").strip() for variable in _REGION_VARIABLES)
    region = next((region for region in named if _REGION.fullmatch(region)), "")
    return f"https://bedrock-runtime.{region}.amazonaws.com" if region else ""
