"""The lab's report as a page: what each policy keeps and costs, session by session, each figure with its definition."""

from collections.abc import Callable
from html import escape
from typing import Final

import msgspec

from tidegate.core.text.secrets import SecretMask
from tidegate.lab.comparison.report.findings import Findings, RequestSeries, SessionLosses, WindowFindings
from tidegate.web.document import render_document

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
"""Bytes of sessions' details that are unpacked together."""


def render_lab_page(findings: Findings, mask: Callable[[str], str] | None = None) -> str:
    """One HTML file from the findings of `tidegate lab`. Names and words out of recordings are masked."""
    findings = _mask_findings(findings, mask or SecretMask())
    blocks: dict[str, bytes] = {}
    windows = [_split_details(window, place, blocks) for place, window in enumerate(findings.windows)]
    title = findings.title or "Policies on recorded sessions"
    body = f"""<header class="top">
<p class="mark"><span class="wave" aria-hidden="true"></span>tidegate <span class="soft">lab</span></p>
<h1>{escape(title)}</h1>
<p class="soft">{escape(_format_subtitle(findings))}</p>
</header>
<main id="page">
<noscript><p class="note">This page draws its pictures and tables with its own script.</p></noscript>
</main>
<footer class="soft" id="foot"></footer>"""
    blocks = {"main": msgspec.json.encode({**msgspec.structs.asdict(findings), "windows": windows}), **blocks}
    return render_document(f"{title} · tidegate lab", body, scripts=_SCRIPTS, blocks=blocks)


def _mask_findings(findings: Findings, mask: Callable[[str], str]) -> Findings:
    """Mask what comes out of recordings: their names, and the words that were lost."""
    change = msgspec.structs.replace
    sessions = tuple(
        change(session, name=mask(session.name), project=mask(session.project)) for session in findings.sessions
    )
    windows = tuple(
        change(window, lost=tuple(_mask_losses(losses, mask) for losses in window.lost or ()))
        for window in findings.windows
    )
    return change(findings, title=mask(findings.title), sessions=sessions, windows=windows)


def _mask_losses(losses: SessionLosses, mask: Callable[[str], str]) -> SessionLosses:
    items = tuple(msgspec.structs.replace(item, what=mask(item.what)) for item in losses.items)
    return msgspec.structs.replace(losses, items=items)


class _SessionDetail(msgspec.Struct):
    """The requests over time and the losses of one session, under every policy."""

    curves: list[RequestSeries] = []
    lost: list[SessionLosses] = []


def _split_details(window: WindowFindings, place: int, blocks: dict[str, bytes]) -> dict[str, object]:
    """Put the details of each session into separate blocks. Returns the rest, with the block of each session."""
    by_session: dict[str, _SessionDetail] = {}
    for series in window.curves or ():
        by_session.setdefault(series.session, _SessionDetail()).curves.append(series)
    for losses in window.lost or ():
        by_session.setdefault(losses.session, _SessionDetail()).lost.append(losses)
    where: dict[str, str] = {}
    chunk: dict[str, _SessionDetail] = {}
    size = 0
    for number, (session, detail) in enumerate(by_session.items(), 1):
        chunk[session] = detail
        size += len(msgspec.json.encode(detail))
        if size >= _CHUNK_BYTES or number == len(by_session):
            name = f"detail{place}-{len(blocks)}"
            blocks[name] = msgspec.json.encode(chunk)
            where |= dict.fromkeys(chunk, name)
            chunk, size = {}, 0
    rest = msgspec.structs.asdict(window)
    return {**{key: rest[key] for key in rest if key not in ("curves", "lost")}, "where": where}


def _format_subtitle(findings: Findings) -> str:
    windows = ", ".join(f"{window.window:,}" for window in findings.windows)
    parts = [
        f"{len(findings.policies):,} policies",
        f"{len(findings.sessions):,} sessions",
        f"windows of {windows} tokens" if len(findings.windows) > 1 else f"a window of {windows} tokens",
    ]
    return " · ".join([*parts, findings.made])
