"""Benchmarks: ``python -m benchmarks`` prints ratios measured in one run. They never fail on time."""
