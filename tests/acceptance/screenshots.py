"""The pictures in docs/images, made anew: `PYTHONPATH=tests python -m acceptance.screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from acceptance.chromium import chromium
from acceptance.traces import SCENES
from trihop.viewer import read, to_html

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SHOTS = (("success", False, 780), ("deadline", True, 990), ("400 polls", False, 900), ("resumed", False, 900))


def main() -> None:
    """One for each scene, light or dark."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as page:
        for scene, dark, height in SHOTS:
            (trace,) = read(SCENES[scene]().splitlines(keepends=True)).traces
            file = Path(folder) / "page.html"
            file.write_text(to_html(trace), encoding="utf-8")
            page.open(file, width=1080, dark=dark)
            page.screenshot(IMAGES / f"page-{scene.replace(' ', '-')}.png", height=height)


if __name__ == "__main__":
    main()
