"""Entry point of ``python -m ragflow_lg``, which does the same as ``ragflow-lg``."""

from ragflow_lg.server.cli.entry import main

if __name__ == "__main__":
    main()
