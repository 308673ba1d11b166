"""The run file: a stored session as one HTML file that opens without a server.

`session_record.py` reads a session and takes secrets out, `run_file_page.py` joins the modules of the page and writes
the file. May import stored sessions, drawings and the page's files.
"""

from ragflow_lg.server.page.run_file.run_file_page import build_run_file
from ragflow_lg.server.page.run_file.session_record import SessionReader

__all__ = ["SessionReader", "build_run_file"]
