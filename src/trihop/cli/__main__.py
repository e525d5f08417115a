"""`python -m trihop.cli`, for where the script is not on the path."""

from trihop.cli import main

main()
