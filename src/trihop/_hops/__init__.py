"""Submit and poll: what an answer means, and the hop that it belongs to."""
