"""Pages as a browser shows them: that of `tidegate view`, and the report of the lab."""

import io
import json
import os
import shutil
from pathlib import Path

from PIL import Image

from tidegate.cli.main import main as tidegate
from tidegate.proof.session_generator import generate_session

WIDTH, HEIGHT = 1280, 1000
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
READY = "html[data-ready=yes]"
COLOURS = 128
BELOW = 24


def picture_of_page(data: Path, session: str, page: Path) -> bytes:
    if tidegate(["view", session, "--data", str(data), "--out", str(page)]):
        raise SystemExit("the page was not made")
    return photograph_page(page.as_uri(), sections=2)


def picture_of_lab(folder: Path) -> bytes:
    """The report of `tidegate lab` on generated sessions of three projects."""
    recordings, page = folder / "recordings", folder / "lab.html"
    for number in range(6):
        path = recordings / f"project-{number // 2}" / f"session-{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"messages": list(generate_session(10 + 3 * number, number))}), "utf-8")
    policies = [word for name in ("default", "ai", "cowagent", "picoclaw") for word in ("--policy", name)]
    places = ["--cache", str(folder / "cache"), "--html", str(page)]
    if tidegate(["lab", str(recordings), "--window", "32000", *policies, *places]):
        raise SystemExit("the report was not made")
    return photograph_page(page.as_uri(), sections=1)


def photograph_page(url: str, *, sections: int) -> bytes:
    """A page from its top to the end of its section number `sections`."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("TIDEGATE_CHROMIUM") or next(
        (program for name in NAMES if (program := shutil.which(name))), ""
    )
    if not path:
        raise SystemExit("no Chromium on this machine: install one, or name it in $TIDEGATE_CHROMIUM")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        try:
            looked = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark", locale="en-GB")
            looked.goto(url)
            looked.wait_for_selector(READY)
            section = f"[...document.querySelectorAll('main section')].slice(0, {sections}).at(-1)"
            end = looked.evaluate(f"{section}?.getBoundingClientRect().bottom ?? {HEIGHT}")
            looked.set_viewport_size({"width": WIDTH, "height": int(end) + BELOW})
            return smaller(looked.screenshot(animations="disabled"))
        finally:
            browser.close()


def smaller(png: bytes) -> bytes:
    """Few colours are enough for a page, and make a tenth of the bytes."""
    buffer = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image = image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)  # keeps rare colours apart
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
