"""The page of one session: the window over time, every request, every compaction, and what it cost."""

from collections.abc import Callable, Mapping
from datetime import UTC
from html import escape
from typing import Final

import msgspec

from tidegate import __version__
from tidegate.datafolder.time_format import format_time
from tidegate.models.catalog import ModelInfo
from tidegate.session.reports.changes import Change
from tidegate.store.log import Log
from tidegate.web.category_shares import CHART_CATEGORIES
from tidegate.web.document import render_document
from tidegate.web.request_history import RequestFigures, SideSpending, request_usage
from tidegate.web.session_story import (
    MAX_CHART_POINTS,
    MAX_LISTED_CHANGES,
    ChangeComparison,
    RequestRow,
    RequestState,
    SessionStory,
    read_session_story,
    thin_rows,
)
from tidegate.web.text_pool import MAX_POOL_TEXT_CHARS, BoundedTexts

_MAX_PAGE_CHARS: Final = 24_000_000
"""Characters of the texts in a page, before compression; in the file they take about a fifth of that."""
_CHUNK_CHARS: Final = 400_000
_SCRIPTS: Final = (
    "kit.js",
    "chart.js",
    "diff.js",
    "session_window.js",
    "session_cost.js",
    "session_requests.js",
    "session_changes.js",
    "session.js",
)


class SessionPage(msgspec.Struct, frozen=True):
    """The HTML, and sentences that say what was left out of it."""

    html: str
    omissions: list[str]


class ChartPoints(msgspec.Struct, frozen=True):
    """The requests in the chart of the window, one value each: columns of equal length."""

    seq: list[int]
    time: list[float]
    window: list[int]
    parts: list[list[int]]


class PageRequest(RequestFigures, frozen=True):
    """A request with the dollars of the session up to it, and the number of its state of the view."""

    so_far: float = 0.0
    state: int = 0


class SessionPageData(msgspec.Struct, frozen=True):
    """The data block `main` of the page. The scripts in assets/ read these keys.

    `first` is the index of the first request in `requests`; `older` counts the changes that are not listed; the
    `comparisons` are those of the `changes`, in the same order; `chunks` are the numbers of texts in the other blocks;
    `denied` are pairs of a call id and who or what denied the call.
    """

    session: str
    version: str
    head: int
    categories: tuple[str, ...]
    points: ChartPoints
    first: int
    requests: list[PageRequest]
    older: int
    changes: list[Change]
    comparisons: list[ChangeComparison]
    states: list[RequestState]
    chunks: list[int]
    beside: SideSpending
    left_out: list[str]
    denied: list[tuple[str, str]]


def render_session_page(
    name: str,
    log: Log,
    mask: Callable[[str], str],
    *,
    window: int = 0,
    model_overrides: Mapping[str, ModelInfo] | None = None,
    limit: int = _MAX_PAGE_CHARS,
) -> SessionPage:
    """Return the page of a session: the same for the same log.

    `mask` hides secrets; `window` overrides what the log and the catalog say; `limit` bounds the characters of texts.
    """
    story = read_session_story(log, mask, name=name, window=window, model_overrides=model_overrides)
    texts = story.pool.bound_texts(limit)
    points = thin_rows(story.rows, MAX_CHART_POINTS)
    recent = [row for row in story.rows if row.state >= 0]
    left_out = [*story.omissions, *_list_omissions(story, texts, len(points))]
    title = mask(name)
    chunks = list(texts.chunks(_CHUNK_CHARS))
    main = SessionPageData(
        session=title,
        version=__version__,
        head=story.head,
        categories=CHART_CATEGORIES,
        points=ChartPoints(
            seq=[row.request.head for row in points],
            time=[row.request.time for row in points],
            window=[row.window for row in points],
            parts=[row.category_tokens for row in points],
        ),
        first=len(story.rows) - len(recent),
        requests=_list_page_requests(story.rows)[len(story.rows) - len(recent) :],
        older=max(0, len(story.changes) - MAX_LISTED_CHANGES),
        changes=story.changes[-MAX_LISTED_CHANGES:],
        comparisons=story.comparisons[-MAX_LISTED_CHANGES:],
        states=story.states,
        chunks=[len(chunk) for chunk in chunks],
        beside=story.side_spending,
        left_out=left_out,
        denied=story.denials,
    )
    blocks = {"main": msgspec.json.encode(main)}
    blocks |= {f"texts{place}": b"[" + b",".join(chunk) + b"]" for place, chunk in enumerate(chunks)}
    html = render_document(
        f"{title} · tidegate",
        _render_body(title, story),
        scripts=_SCRIPTS,
        blocks=blocks,
    )
    return SessionPage(html, left_out)


def _list_omissions(story: SessionStory, texts: BoundedTexts, points: int) -> list[str]:
    lines = []
    if texts.max_chars < MAX_POOL_TEXT_CHARS:
        lines.append(
            f"Texts of more than {texts.max_chars:,} characters are cut in the middle, to keep this file small."
        )
    elif story.pool.cut_texts:
        lines.append(
            f"Texts of more than {MAX_POOL_TEXT_CHARS:,} characters are cut in the middle:"
            f" {story.pool.cut_texts:,} of them."
        )
    if story.pool.omitted_blobs:
        lines.append(
            f"Pictures and signed blocks are shown by their length only: {story.pool.omitted_blobs:,} of them."
        )
    if points < len(story.rows):
        lines.append(f"The picture shows {points:,} of {len(story.rows):,} requests; the fullest are kept.")
    if len(story.changes) > MAX_LISTED_CHANGES:
        lines.append(f"The newest {MAX_LISTED_CHANGES:,} of {len(story.changes):,} compactions are listed.")
    count = story.pool.masker.count
    lines.append(f"Secrets that are masked: {count:,}." if count else "No secrets were found to mask.")
    return lines


def _list_page_requests(rows: list[RequestRow]) -> list[PageRequest]:
    requests: list[PageRequest] = []
    so_far = 0.0
    for row in rows:
        so_far += row.request.cost.total
        requests.append(
            msgspec.structs.replace(
                PageRequest.of_record(row.request),
                model=row.model,
                wire=row.dialect_name,
                total=row.total,
                parts=row.category_tokens,
                messages=row.message_count,
                window=row.window,
                so_far=so_far,
                state=row.state,
                client=row.client,
            )
        )
    return requests


def _render_body(title: str, story: SessionStory) -> str:
    """Return the part that can be read without a script. The scripts draw the rest into the empty elements."""
    figures = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in _format_figures(story).items()
    )
    return f"""<header class="top">
<p class="mark"><span class="wave" aria-hidden="true"></span>tidegate <span class="soft">view</span></p>
<h1>{escape(title)}</h1>
<p class="soft">{escape(_format_subtitle(story))}</p>
</header>
<main id="page">
<dl class="figures" id="figures">{figures}</dl>
<noscript><p class="note">This page draws its pictures and unpacks its texts with its own script.</p></noscript>
</main>
<footer class="soft" id="foot"></footer>"""


def _format_subtitle(story: SessionStory) -> str:
    clients = list(dict.fromkeys(row.client for row in story.rows if row.client))
    models = list(dict.fromkeys(row.model for row in story.rows if row.model))
    names = " · ".join(", ".join(each) for each in (clients, models[-3:] or ["no model named"]) if each)
    times = [row.request.time for row in story.rows]
    if not times:
        return f"{names} · {story.head:,} records"
    first, last = (format_time(each, zone=UTC) for each in (min(times), max(times)))
    return f"{names} · {story.head:,} records · {first} to {last} UTC"


def _format_figures(story: SessionStory) -> dict[str, str]:
    rows = story.rows
    usages = [request_usage(row.request.used) for row in rows]
    read, cached = sum(each.input_tokens for each in usages), sum(each.cache_read for each in usages)
    dollars = sum(row.request.cost.total for row in rows) + story.side_spending.dollars
    priced = any(row.request.cost.is_priced for row in rows)
    missing = story.side_spending.unpriced or any(
        row.request.used is not None and not row.request.cost.is_priced for row in rows
    )
    edits = sum(change.is_edit for change in story.changes)
    cost = f"{'&gt; ' if missing else ''}${dollars:,.4f}" if priced or dollars else "not known"
    return {
        "requests": f"{len(rows):,}",
        "compactions": f"{edits:,}",
        "fullest": _format_fullest(story),
        "tokens read": f"{read:,}",
        "of these cached": f"{100 * cached / read:.1f}%" if read else "–",
        "tokens written": f"{sum(each.output_tokens for each in usages):,}",
        "cost": cost,
    }


def _format_fullest(story: SessionStory) -> str:
    if not story.rows:
        return "–"
    top = max(story.rows, key=lambda row: row.total)
    share = f" <small>{100 * top.total / top.window:.0f}% of {top.window:,}</small>" if top.window else ""
    return f"{top.total:,}{share}"
