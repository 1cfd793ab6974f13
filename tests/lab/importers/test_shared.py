"""Raw files of real agents against the same sessions in normal form, where these recordings are at hand."""

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.importers.test_formats import plain
from tidegate.lab.importers import read_recordings

SHARED = Path(__file__).parents[4] / "shared" / "transcripts"
RAW = sorted((SHARED / "raw").glob("*.gz"))

pytestmark = pytest.mark.skipif(not RAW, reason="the shared recordings are not here")


def lines_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@functools.cache
def by_raw() -> dict[str, list[Path]]:
    """The files in normal form that were made of each raw file."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SHARED.glob("*.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            meta = json.loads(file.readline())["meta"]
        found.setdefault(f"{meta['source']}--{meta['raw']}.gz", []).append(path)
    return found


@pytest.mark.parametrize("raw", RAW, ids=lambda path: path.name[:40])
def test_a_raw_file_gives_the_normal_form(raw: Path) -> None:
    """Roles, order, texts, thinking, calls with their ids and arguments, results: all of it, without exception."""
    got = read_recordings(raw)
    normal = by_raw()[raw.name]
    assert normal
    for path in normal:
        meta, *messages = lines_of(path)
        ident = meta["meta"]["id"]
        same = [each for each in got if len(got) == 1 or ident.endswith(each.name) or each.name.endswith(ident)]
        assert len(same) == 1
        assert plain(same[0].messages) == plain(messages)
        assert same[0].origin.agent
        assert meta["meta"]["model"] in (None, same[0].origin.model) or not same[0].origin.model


@pytest.mark.exhaustive
def test_the_normal_form_is_read_as_it_is() -> None:
    for path in sorted(SHARED.glob("*-1.jsonl.gz")):
        recording = read_recordings(path)[0]
        assert recording.messages == lines_of(path)[1:]
        assert recording.repairs == []
