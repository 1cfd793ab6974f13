"""Hooks of mkdocs: pages from outside docs/, links between them, and checks of the finished site.

The README is the home page. The generated reference is read from build/reference, where docs/reference.py writes it.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "build" / "reference"
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
}
MAX_BYTES = 5_000_000
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*\bsrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon))[^>]*\bhref=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//[^"')]+|url\(["']?(?:https?:)?//[^"')]+""",
    re.IGNORECASE,
)
"""What a browser would load from another host."""


def on_files(files: Files, config: Any) -> Files:
    for source, target in ROOT_PAGES.items():
        text = (ROOT / source).read_text("utf-8").replace("](docs/", "](")
        files.append(File.generated(config, target, content=text))
    pages = sorted(REFERENCE.glob("*.md"))
    if not pages:
        raise PluginError("There is no generated reference. Use `make docs`.")
    for path in pages:
        files.append(File.generated(config, f"reference/{path.name}", content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """In the repository these files are one folder above the pages; in the site they are beside them."""
    for source, target in ROOT_PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({target}")
    return markdown


def on_post_build(config: Any) -> None:
    site = Path(config["site_dir"])
    for pattern in ("**/*.map", "assets/javascripts/lunr/**/*.js"):  # for debuggers, and for other languages
        for path in site.glob(pattern):
            path.unlink()
    paths = [path for path in site.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in paths)
    if size > MAX_BYTES:
        raise PluginError(f"The site has {size:,} bytes, more than {MAX_BYTES:,}.")
    for path in paths:
        if path.suffix in (".html", ".css") and (found := FETCHED.search(path.read_text("utf-8"))):
            raise PluginError(f"{path.relative_to(site)} loads from another host: {found[0][:200]}")
