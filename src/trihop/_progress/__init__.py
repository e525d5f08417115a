"""How progress is shown: plain lines, bars, a crowd of jobs."""
