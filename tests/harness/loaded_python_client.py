"""Start a program in the loaded process of `tests.harness.loaded_python`: ``python -I -S FILE SOCKET WORDS``.

This file imports nothing else of the project, because it has to start quickly.
"""

import json
import os
import signal
import socket
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def main() -> None:
    """Run the program; end with its exit code or signal."""
    path, *words = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        for number in SIGNALS:
            signal.signal(number, lambda number, frame: connection.sendall(bytes([number])))
        request = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(request)
        os.close(0)  # the program has them
        os.close(1)
        code = int.from_bytes(connection.recv(4), "big", signed=True)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
