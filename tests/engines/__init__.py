"""Engines whose workers take the steps; with brokers in memory here, and with real ones in `acceptance`."""
