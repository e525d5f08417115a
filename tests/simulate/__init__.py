"""Many jobs on a virtual clock, by the decisions that the library itself takes; and what that costs a database.

make simulate
make simulate ARGUMENTS="--jobs 20000 --workers 100 --database sqlite"
"""
