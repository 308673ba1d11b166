"""A client for a server of the tests."""

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.ragflow_api.api_client import ApiAddress, RagflowApi
from tests.fakes.recorded_ragflow import RecordedRagflow

KEY = "ragflow-k3y-of-theirs"


def open_api(server: RecordedRagflow, waits: list[float] | None = None) -> RagflowApi:
    async def sleep(seconds: float) -> None:
        if waits is not None:
            waits.append(seconds)

    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    return RagflowApi(ApiAddress(server.url, KEY), http, sleep=sleep)
