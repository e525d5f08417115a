"""What the caller's own code sends inside an operation."""
