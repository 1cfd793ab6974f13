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


def read_asset(name: str) -> str:
    return resources.files("tidegate.web").joinpath("assets", name).read_text("utf-8")


def pack_data(data: bytes) -> str:
    """Compress data and encode it in characters that mean nothing to HTML."""
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def _join_scripts(scripts: Sequence[str]) -> str:
    return "'use strict';\n" + "\n".join(map(read_asset, scripts))


def _join_styles(styles: Sequence[str]) -> str:
    return "\n".join(map(read_asset, styles))


def make_content_policy(scripts: Sequence[str], styles: Sequence[str], *, is_served: bool = False) -> str:
    """What a page may do. One that a server sends may also ask that server and send forms to it."""
    reach = "form-action 'self'; connect-src 'self'" if is_served else "form-action 'none'"
    return (
        f"default-src 'none'; img-src data:; base-uri 'none'; {reach};"
        " require-trusted-types-for 'script'; trusted-types 'none';"
        f" script-src '{_hash(_join_scripts(scripts))}'; style-src '{_hash(_join_styles(styles))}'"
    )


def render_document(
    title: str,
    body: str,
    *,
    scripts: Sequence[str],
    blocks: Mapping[str, bytes],
    styles: Sequence[str] = ("page.css",),
    is_served: bool = False,
) -> str:
    """Return the HTML file. `body` is HTML, escaped by the caller; `blocks` are the data by name, which the scripts
    unpack. `is_served`: a server sends it, and the page may ask that server for more."""
    style, script = _join_styles(styles), _join_scripts(scripts)
    referrer = "same-origin" if is_served else "no-referrer"  # without one, a form says its origin is null
    policy = make_content_policy(scripts, styles, is_served=is_served)
    data = "".join(
        f'<script type="text/plain" id="{escape(name)}">{pack_data(block)}</script>\n' for name, block in blocks.items()
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="referrer" content="{referrer}">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="{_ICON}">\n'
        f"<style>{style}</style>\n</head>\n<body>\n{body}\n{data}<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
