"""Benchmarks: ``python -m benchmarks`` prints ratios that are measured in one run.

May import everything. Benchmarks never fail because of timings.
"""
