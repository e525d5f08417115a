"""An operation that outlives its process: the hold on its record."""
