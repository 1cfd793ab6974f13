"""The page of a lab report: what each policy keeps and costs, session by session, each figure with its definition."""

from collections.abc import Callable
from html import escape
from typing import Any, Final

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.text.secrets import SecretMask
from tidegate.lab.comparison.report.findings import FINDINGS_FORM
from tidegate.web.document import render_document

_Json = dict[str, Any]

_SCRIPTS: Final = (
    "kit.js",
    "chart.js",
    "lab_parts.js",
    "lab_curve.js",
    "lab_frontier.js",
    "lab_pairs.js",
    "lab_sessions.js",
    "lab_lists.js",
    "lab.js",
)
_CHUNK_BYTES: Final = 300_000
"""Bytes of session details in one block, which the page unpacks at once."""


def render_lab_page(report: bytes, mask: Callable[[str], str] | None = None) -> str:
    """Return one HTML file for the JSON of `tidegate lab`. Names and texts from recordings are masked."""
    found = _decode_report(report)
    _mask_report(found, mask or SecretMask())
    blocks: dict[str, bytes] = {}
    for index, window in enumerate(found["windows"]):
        window["where"] = _split_details(window, index, blocks)
    title = str(found.get("title", "")) or "Policies on recorded sessions"
    body = f"""<header class="top">
<p class="mark"><span class="wave" aria-hidden="true"></span>tidegate <span class="soft">lab</span></p>
<h1>{escape(title)}</h1>
<p class="soft">{escape(_format_subtitle(found))}</p>
</header>
<main id="page">
<noscript><p class="note">This page draws its pictures and tables with a script of its own.</p></noscript>
</main>
<footer class="soft" id="foot"></footer>"""
    blocks = {"main": msgspec.json.encode(found), **blocks}
    return render_document(f"{title} · tidegate lab", body, scripts=_SCRIPTS, blocks=blocks)


def _decode_report(report: bytes) -> _Json:
    try:
        found = msgspec.json.decode(report)
    except msgspec.DecodeError as bad:
        raise BadInput(f"The report is not JSON: {bad}.", "Write it with tidegate lab --json.") from None
    if not isinstance(found, dict) or found.get("form") != FINDINGS_FORM:
        raise BadInput(f"This is not a report of the form {FINDINGS_FORM}.", "Write it with tidegate lab --json.")
    return found


def _mask_report(report: _Json, mask: Callable[[str], str]) -> None:
    """Mask the texts from recordings: their names, and the lost references."""
    report["title"] = mask(str(report.get("title", "")))
    for session in report.get("sessions", ()):
        session.update({key: mask(str(session.get(key, ""))) for key in ("name", "project")})
    for window in report["windows"]:
        for lost in window.get("lost", ()):
            for item in lost["items"]:
                item["what"] = mask(item["what"])


def _split_details(window: _Json, index: int, blocks: dict[str, bytes]) -> dict[str, str]:
    """Move the curves and losses of each session into blocks of their own. Return the block of each session."""
    by_session: dict[str, _Json] = {}
    for kind in ("curves", "lost"):
        for each in window.pop(kind, ()):
            by_session.setdefault(each["session"], {"curves": [], "lost": []})[kind].append(each)
    where: dict[str, str] = {}
    chunk: dict[str, _Json] = {}
    size = 0
    for number, (session, detail) in enumerate(by_session.items(), 1):
        chunk[session] = detail
        size += len(msgspec.json.encode(detail))
        if size >= _CHUNK_BYTES or number == len(by_session):
            name = f"detail{index}-{len(blocks)}"
            blocks[name] = msgspec.json.encode(chunk)
            where |= dict.fromkeys(chunk, name)
            chunk, size = {}, 0
    return where


def _format_subtitle(report: _Json) -> str:
    windows = ", ".join(f"{window['window']:,}" for window in report["windows"])
    parts = [
        f"{len(report['policies']):,} policies",
        f"{len(report['sessions']):,} sessions",
        f"windows of {windows} tokens" if len(report["windows"]) > 1 else f"a window of {windows} tokens",
    ]
    return " · ".join([*parts, str(report.get("made", ""))])
