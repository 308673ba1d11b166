"""What is watched while the server runs: logs, audit, metrics, spans, and the limits of requests and runs."""
