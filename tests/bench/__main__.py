"""All benchmarks, a ratio a line; each is measured against its base in the same run."""

from __future__ import annotations

from tests.bench import download, durable, imports, triangle

if __name__ == "__main__":
    imports.report()
    triangle.report()
    download.report()
    durable.report()
