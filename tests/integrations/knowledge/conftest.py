from tests.server.cli.conftest import _at_home  # noqa: F401  # pyright: ignore[reportPrivateUsage, reportUnusedImport]
