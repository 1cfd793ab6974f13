"""Builds a self-contained HTML file: styles, scripts and data inside, and a content policy that forbids everything
else.

The page cannot reach a network, and no text can become script: the texts of users, models and tools are in compressed
blocks, and the scripts show them as text nodes only. The policy lists the scripts and styles by their hash, so the
browser refuses any other.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Final

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%232c6e8f'"
    " d='M0 9c3-3 5 3 8 0s5 3 8 0v7H0z'/%3E%3C/svg%3E"
)
_CONTENT_POLICY: Final = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)


def read_asset(name: str) -> str:
    return resources.files("tidegate.web").joinpath("assets", name).read_text("utf-8")


def pack_data(data: bytes) -> str:
    """Compress data and encode it in characters that mean nothing to HTML."""
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def render_document(
    title: str, body: str, *, scripts: Sequence[str], blocks: Mapping[str, bytes], styles: Sequence[str] = ("page.css",)
) -> str:
    """Return the HTML file. `body` is HTML, escaped by the caller; `blocks` are the data by name, which the scripts
    unpack."""
    style = "\n".join(map(read_asset, styles))
    script = "'use strict';\n" + "\n".join(map(read_asset, scripts))
    policy = f"{_CONTENT_POLICY}; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    data = "".join(
        f'<script type="text/plain" id="{escape(name)}">{pack_data(block)}</script>\n' for name, block in blocks.items()
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="{_ICON}">\n'
        f"<style>{style}</style>\n</head>\n<body>\n{body}\n{data}<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
