"""Benchmarks: ratios between variants that take turns in one process."""
