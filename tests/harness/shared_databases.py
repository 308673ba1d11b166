"""Database servers that all processes of a test run share: each is started once, at its first use.

A thread of the process that starts the test run starts them. The other processes ask it for their URLs over a socket.
"""

import os
import secrets
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from threading import Thread
from unittest.mock import patch

from tests.harness.database_servers import server

VARIABLE = "SHARED_DATABASES"
"""Environment variable with the path of the socket and the key for it."""


def database_server_url(kind: str) -> str:
    """Return the URL of the test run's server of a kind.

    Raises:
        NotInstalledError: if it is not installed.
    """
    path, _, key = os.environ[VARIABLE].rpartition(" ")
    with Client(path, "AF_UNIX", authkey=key.encode()) as connection:
        connection.send(kind)
        answer: str | Exception = connection.recv()
    if isinstance(answer, Exception):
        raise answer
    return answer


@contextmanager
def shared_databases() -> Generator[None]:
    """Let `database_server_url` start servers, which end with the block."""
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-databases-") as folder:
        path, key = f"{folder}/socket", secrets.token_hex()
        with Listener(path, "AF_UNIX", authkey=key.encode()) as listener, patch.dict(os.environ):
            os.environ[VARIABLE] = f"{path} {key}"
            thread = Thread(target=_serve, args=(listener,))  # the servers end with the thread that has started them
            thread.start()
            try:
                yield
            finally:
                with Client(path, "AF_UNIX", authkey=key.encode()) as connection:
                    connection.send("")
                thread.join()


def _serve(listener: Listener) -> None:
    """Answer with a URL or an error until an empty request arrives."""
    with ExitStack() as stack:
        urls: dict[str, str] = {}
        while True:
            with (
                suppress(EOFError, OSError, AuthenticationError),
                listener.accept() as connection,
            ):  # a test may be killed
                kind: str = connection.recv()
                if not kind:
                    return
                try:
                    if kind not in urls:
                        urls[kind] = stack.enter_context(server(kind))
                    connection.send(urls[kind])
                except Exception as error:  # noqa: BLE001 - raised in the test that asks
                    connection.send(error)
