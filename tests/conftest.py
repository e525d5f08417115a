"""What all tests share; the fixtures `clock`, `server` and `spans` come from trihop's own pytest plugin."""

pytest_plugins = ["pytester"]
