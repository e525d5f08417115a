"""A job server of our own to try trihop on, and the provider that speaks to it.

`python -m trihop.demo` serves on 127.0.0.1 until its standard input closes. The server needs the standard library only.
"""
