"""What is told of an operation: names, spans, metrics, log events; none of it ever reaches the caller as a fault."""
