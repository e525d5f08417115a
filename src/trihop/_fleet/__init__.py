"""Many operations at once in one process."""
