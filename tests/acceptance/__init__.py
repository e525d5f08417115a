"""Acceptance: the built wheel, without the source, in environments made afresh."""
