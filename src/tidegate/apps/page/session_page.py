"""The page of one session: the window over time, every request, every compaction, and what it cost."""

from collections.abc import Callable, Mapping
from datetime import UTC
from html import escape
from typing import Final

import msgspec

from tidegate import __version__
from tidegate.apps.page.asked import usage_of
from tidegate.apps.page.document import document
from tidegate.apps.page.pool import LONGEST, Packed
from tidegate.apps.page.shares import CATEGORIES
from tidegate.apps.page.story import MOST_CHANGES, MOST_POINTS, Row, Story, tell, thinned
from tidegate.keep.times import format_time
from tidegate.models.catalog import Model
from tidegate.store.log import Log

LIMIT: Final = 24_000_000
"""Characters of the texts in a page, before they are compressed: about a fifth of that in the file."""
CHUNK: Final = 400_000
SCRIPTS: Final = (
    "kit.js",
    "chart.js",
    "diff.js",
    "session_window.js",
    "session_cost.js",
    "session_requests.js",
    "session_changes.js",
    "session.js",
)


class Page(msgspec.Struct, frozen=True):
    """The HTML, and what was left out of it, in sentences."""

    html: str
    left_out: list[str]


def session_page(
    name: str,
    log: Log,
    mask: Callable[[str], str],
    *,
    window: int = 0,
    prices: Mapping[str, Model] | None = None,
    limit: int = LIMIT,
) -> Page:
    """Same log, same page. `mask` hides secrets; `window` stands above what the log and the catalog say."""
    story = tell(log, mask, window=window, prices=prices)
    texts = story.pool.packed(limit)
    points = thinned(story.rows, MOST_POINTS)
    recent = [row for row in story.rows if row.state >= 0]
    left_out = [*story.left_out, *_told(story, texts, len(points))]
    title = mask(name)
    chunks = list(texts.chunks(CHUNK))
    main = {
        "session": title,
        "version": __version__,
        "head": story.head,
        "categories": CATEGORIES,
        "points": {
            "seq": [row.asked.head for row in points],
            "time": [row.asked.time for row in points],
            "window": [row.window for row in points],
            "parts": [row.parts for row in points],
        },
        "first": len(story.rows) - len(recent),
        "requests": _requests(story.rows)[len(story.rows) - len(recent) :],
        "older": max(0, len(story.changes) - MOST_CHANGES),
        "changes": [msgspec.to_builtins(each) for each in story.changes[-MOST_CHANGES:]],
        "states": [[each.head, each.key, each.kept, each.added, each.tail] for each in story.states],
        "chunks": [len(chunk) for chunk in chunks],
        "beside": story.beside,
        "left_out": left_out,
    }
    blocks = {"main": msgspec.json.encode(main)}
    blocks |= {f"texts{place}": b"[" + b",".join(chunk) + b"]" for place, chunk in enumerate(chunks)}
    html = document(
        f"{title} · tidegate",
        _body(title, story),
        scripts=SCRIPTS,
        blocks=blocks,
    )
    return Page(html, left_out)


def _told(story: Story, texts: Packed, points: int) -> list[str]:
    lines = []
    if texts.longest < LONGEST:
        lines.append(f"Texts of more than {texts.longest:,} characters are cut in the middle, to keep this file small.")
    elif story.pool.cut:
        lines.append(f"Texts of more than {LONGEST:,} characters are cut in the middle: {story.pool.cut:,} of them.")
    if story.pool.blobs:
        lines.append(f"{story.pool.blobs:,} pictures and signed blocks are shown by their length only.")
    if points < len(story.rows):
        lines.append(f"The picture shows {points:,} of {len(story.rows):,} requests; the fullest are kept.")
    if len(story.changes) > MOST_CHANGES:
        lines.append(f"The newest {MOST_CHANGES:,} of {len(story.changes):,} compactions are listed.")
    masked = story.pool.masking.count
    lines.append(f"Secrets that are masked: {masked:,}." if masked else "No secrets were found to mask.")
    return lines


def _requests(rows: list[Row]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    so_far = 0.0
    for row in rows:
        asked, usage = row.asked, usage_of(row.asked.used)
        so_far += asked.bill.total
        found.append(
            {
                "head": asked.head,
                "time": asked.time,
                "model": row.model,
                "wire": row.wire,
                "reported": asked.used is not None and asked.used.input_tokens > 0,
                "counted": asked.used.counted if asked.used is not None else 0,
                "total": row.total,
                "parts": row.parts,
                "messages": row.messages,
                "window": row.window,
                "input": usage.input_tokens,
                "output": usage.output_tokens,
                "read": usage.cache_read,
                "written": usage.cache_write,
                "paid": [asked.bill.input, asked.bill.cached, asked.bill.written, asked.bill.output],
                "priced": asked.bill.known,
                "so_far": so_far,
                "state": row.state,
            }
        )
    return found


def _body(title: str, story: Story) -> str:
    """What can be read without a script; the rest is drawn into the empty places."""
    figures = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in _figures(story).items())
    return f"""<header class="top">
<p class="mark"><span class="wave" aria-hidden="true"></span>tidegate <span class="soft">view</span></p>
<h1>{escape(title)}</h1>
<p class="soft">{escape(_line(story))}</p>
</header>
<main id="page">
<dl class="figures" id="figures">{figures}</dl>
<noscript><p class="note">This page draws its pictures and unpacks its texts with a script of its own.</p></noscript>
</main>
<footer class="soft" id="foot"></footer>"""


def _line(story: Story) -> str:
    models = list(dict.fromkeys(row.model for row in story.rows if row.model))
    named = ", ".join(models[-3:]) or "no model named"
    times = [row.asked.time for row in story.rows]
    if not times:
        return f"{named} · {story.head:,} records"
    first, last = (format_time(each, zone=UTC) for each in (min(times), max(times)))
    return f"{named} · {story.head:,} records · {first} to {last} UTC"


def _figures(story: Story) -> dict[str, str]:
    rows = story.rows
    used = [usage_of(row.asked.used) for row in rows]
    read, cached = sum(each.input_tokens for each in used), sum(each.cache_read for each in used)
    paid = sum(row.asked.bill.total for row in rows) + story.beside.dollars
    priced = any(row.asked.bill.known for row in rows)
    missing = story.beside.unpriced or any(row.asked.used is not None and not row.asked.bill.known for row in rows)
    edits = sum(bool(change.moment) for change in story.changes)
    cost = f"{'&gt; ' if missing else ''}${paid:,.4f}" if priced or paid else "not known"
    return {
        "requests": f"{len(rows):,}",
        "compactions": f"{edits:,}",
        "fullest": _fullest(story),
        "tokens read": f"{read:,}",
        "of these cached": f"{100 * cached / read:.1f}%" if read else "–",
        "tokens written": f"{sum(each.output_tokens for each in used):,}",
        "cost": cost,
    }


def _fullest(story: Story) -> str:
    if not story.rows:
        return "–"
    top = max(story.rows, key=lambda row: row.total)
    share = f" <small>{100 * top.total / top.window:.0f}% of {top.window:,}</small>" if top.window else ""
    return f"{top.total:,}{share}"
