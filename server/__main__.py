"""``python -m server``: the same as ``ragflow-lg``."""

from server.cli.app import main

if __name__ == "__main__":
    main()
