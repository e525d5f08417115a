"""The third hop: results, to their last byte."""
