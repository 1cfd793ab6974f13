"""The page of `tidegate view`, as a browser shows it."""

import io
import os
import shutil
from pathlib import Path

from PIL import Image

from tidegate.cli.main import main as tidegate

WIDTH, HEIGHT = 1280, 1000
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
READY = "html[data-ready=yes]"
COLOURS = 128
BELOW = 24


def picture_of_page(data: Path, session: str, page: Path) -> bytes:
    if tidegate(["view", session, "--data", str(data), "--out", str(page)]):
        raise SystemExit("the page was not made")
    return smaller(photographed(page))


def photographed(page: Path) -> bytes:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("TIDEGATE_CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), "")
    if not path:
        raise SystemExit("no Chromium on this machine: install one, or name it in $TIDEGATE_CHROMIUM")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            looked = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark", locale="en-GB")
            looked.goto(page.as_uri())
            looked.wait_for_selector(READY)
            end = looked.evaluate("document.querySelectorAll('main section')[1].getBoundingClientRect().bottom")
            looked.set_viewport_size({"width": WIDTH, "height": int(end) + BELOW})
            return looked.screenshot(animations="disabled")
        finally:
            browser.close()


def smaller(png: bytes) -> bytes:
    """Few colours are enough for a page, and make a tenth of the bytes."""
    written = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(written, "PNG", optimize=True)
    return written.getvalue()
