"""What is measured of a sandbox; that limits are enforced is shown by the attacks."""

import os
import subprocess
import sys
import tempfile

import pytest

from ragflow_lg.integrations.code.bubblewrap import find_excess
from ragflow_lg.integrations.code.code_settings import CodeLimits

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")]


async def test_files_of_the_host_do_not_count_while_a_sandbox_is_set_up() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        try:
            with tempfile.NamedTemporaryFile(dir="/tmp"):
                assert await find_excess(os.getpid(), CodeLimits(files=0, memory_bytes=2**40), "/tmp") is None
        finally:
            child.kill()
