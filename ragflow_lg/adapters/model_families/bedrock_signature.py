"""Signatures of requests to Amazon Bedrock, for requests that our own HTTP client sends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require

DEFAULT_REGION = "us-east-1"
"""The region in signatures for addresses that name none, such as a proxy's."""
_SERVICE = "bedrock"
_REGION = re.compile(r"(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d)\.")


def region_of(base_url: str) -> str:
    """Return the region that an address names, or the default.

    >>> region_of("https://bedrock-runtime.eu-central-1.amazonaws.com")
    'eu-central-1'
    """
    found = _REGION.search(urlsplit(base_url).hostname or "")
    return found[1] if found else DEFAULT_REGION


class BedrockSigner:
    """Signs requests with the credentials that AWS's own tools find. It blocks: call it in a thread."""

    def __init__(self, purpose: str) -> None:
        """Initialize it. ``purpose`` starts error messages: what needs the credentials."""
        self._purpose = purpose
        self._credentials: Any = None

    def sign(self, url: str, body: bytes) -> Mapping[str, str]:
        """Return the headers of a POST request with a JSON body.

        Raises:
            SettingsError: if there are no credentials, or the extra is missing.
        """
        require("bedrock", self._purpose)
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        session, sign_v4 = Session(), cast("Any", SigV4Auth)
        request = AWSRequest("POST", url, data=body, headers={"Content-Type": "application/json"})
        try:
            if self._credentials is None:
                self._credentials = cast("Any", session).get_credentials()
            if self._credentials is None:
                raise SettingsError(
                    f"{self._purpose} needs a key in AWS_BEARER_TOKEN_BEDROCK, or credentials of AWS. Set one of them."
                )
            sign_v4(self._credentials.get_frozen_credentials(), _SERVICE, region_of(url)).add_auth(request)
        except BotoCoreError as error:
            raise SettingsError(f"{self._purpose} finds no credentials of AWS: {error}") from error
        return dict(request.headers.items())
