"""Faults that others met in the field, each answered by one test."""
