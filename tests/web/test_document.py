"""The file itself: what it allows, what it asks for, what its parser sees. No browser is needed for these."""

import base64
import hashlib
import re
import zlib
from html.parser import HTMLParser

import pytest

from tests.web.sample_sessions import HOSTILE, SECRET, lived
from tidegate.core.text.secrets import SecretMask
from tidegate.store.log import MemoryLog
from tidegate.web.document import render_document
from tidegate.web.session_page import render_session_page


class Seen(HTMLParser):
    """Every element with its attributes, and what stands in scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, dict[str, str | None], str]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs))

    def handle_data(self, data: str) -> None:
        if self._open is not None and self._open[0] in ("script", "style", "title"):
            self.inside.append((*self._open, data))
        self._open = None


@pytest.fixture(scope="module")
def html() -> str:
    return render_session_page(f"name {HOSTILE[0]}", lived(3).log, SecretMask([SECRET])).html


def test_the_policy_names_the_very_scripts_and_styles(html: str) -> None:
    seen = Seen(html)
    (policy,) = [attrs["content"] for tag, attrs in seen.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        (text,) = [text for tag, attrs, text in seen.inside if tag == kind and "type" not in attrs]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    first = next(place for place, (tag, _) in enumerate(seen.tags) if tag in ("script", "style", "link"))
    assert any("http-equiv" in attrs for _, attrs in seen.tags[:first])


def test_nothing_in_it_points_outside(html: str) -> None:
    seen = Seen(html)
    named = ("src", "href", "action", "data")
    links = [value for _, attrs in seen.tags for name, value in attrs.items() if name in named]
    assert all(value is not None and value.startswith("data:") for value in links)
    assert set(re.findall(r"https?://[\w./-]+", html)) == {"http://www.w3.org/2000/svg"}
    assert not [attrs for _, attrs in seen.tags if any(name.startswith("on") or name == "style" for name in attrs)]


def test_hostile_words_are_nowhere_in_the_markup(html: str) -> None:
    seen = Seen(html)
    assert {tag for tag, _ in seen.tags}.isdisjoint({"img", "iframe", "svg", "a", "object"})
    assert all(attrs.get("type") == "text/plain" for tag, attrs, _ in seen.inside if tag == "script" and "id" in attrs)
    assert len([1 for tag, attrs in seen.tags if tag == "script" and "type" not in attrs]) == 1
    (title,) = [text for tag, _, text in seen.inside if tag == "title"]
    assert HOSTILE[0] in title
    assert SECRET not in html
    blocks = [text for tag, attrs, text in seen.inside if tag == "script" and "id" in attrs]
    whole = "".join(zlib.decompress(base64.b64decode(text)).decode() for text in blocks)
    assert SECRET not in whole
    assert "window.hacked" in whole


def test_same_log_same_page() -> None:
    first, second = (render_session_page("a", lived.__wrapped__(2).log, SecretMask()).html for _ in range(2))
    assert first == second


def test_a_session_without_requests_has_a_page() -> None:
    assert "requests</dt><dd>0" in render_session_page("empty", MemoryLog(), SecretMask()).html


def test_a_page_within_a_limit_says_what_is_left_out() -> None:
    log = lived().log
    large, small = (
        render_session_page("a", log, SecretMask()),
        render_session_page("a", log, SecretMask(), limit=30_000),
    )
    assert len(small.html) < len(large.html)
    assert any("are cut in the middle, to keep this file small" in line for line in small.omissions)


def test_names_of_blocks_and_titles_are_escaped() -> None:
    html = render_document("</title><script>1</script>", "<p>", scripts=(), blocks={'"><b>': b"x"})
    seen = Seen(html)
    assert [tag for tag, _ in seen.tags].count("script") == 2
    assert "b" not in {tag for tag, _ in seen.tags}
