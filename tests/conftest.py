"""What all tests share; the fixtures `clock`, `server` and `spans` come from trihop's own pytest plugin."""

from hypothesis import settings

pytest_plugins = ["pytester"]

# How long an example takes is up to the machine.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
