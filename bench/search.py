"""Measure whether a small embedding model improves full-text search: known-item search over recordings.

    python bench/search.py FOLDER [--messages 400] [--models wordllama,minilm] [--json]

Texts are what users said and tools gave in a sample of the recordings, and forty notes. Questions come in three sets:

    named        a sentence of the assistant that names something rare seen at least five messages before. The text
                 looked for is where that first stood
    described    the same sentences without any name, number or path: what is left are common words
    paraphrased  questions to the notes in other words (bench/search_notes.py), among all texts and among notes alone

The first set is full text's home ground, the last are an embedding's. A recording is never written anywhere but to a
temporary index. Fused is reciprocal rank fusion with the usual constant of 60.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from search_notes import NOTES

from tidegate.lab.peer_registry import get_environment_interpreter
from tidegate.lab.replay import recording_file
from tidegate.memory.log_lines import LogLine
from tidegate.memory.search import Search

BENCH = Path(__file__).resolve().parent
PYTHON = get_environment_interpreter("embeddings")
KEPT = 50
FUSION = 60
APART = 5
MOST_OF_ONE = 120
"""Texts of one recording, so that a long one is not the whole corpus."""
MOST_QUERIES = 150
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")
_WORD = re.compile(r"[A-Za-z]{2,}")
_NAME = re.compile(r"[\w./@:-]*(?:\w[_/.@]\w|[a-z][A-Z]|[A-Z]{2}[a-z]|\w\d|\d\w)[\w./@:-]*")


class Text(NamedTuple):
    session: str
    seq: int
    text: str


class Query(NamedTuple):
    """`wanted` is the place of the text in the corpus."""

    kind: str
    text: str
    wanted: int


class Said(NamedTuple):
    """A sentence of the assistant, with what was said before it."""

    session: str
    seq: int
    text: str


Ranks = list[list[int]]


# --- texts and questions ------------------------------------------------------------------------------------------


def content(message: dict[str, object]) -> str:
    value = message.get("content")
    if isinstance(value, list):
        return "\n".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def sample_texts(folder: Path, most: int) -> tuple[list[Text], list[Said]]:
    """Texts of users and tools, and the assistant's sentences, from recordings spread over the folder."""
    texts: list[Text] = []
    sentences: list[Said] = []
    paths = recording_file.find_chat_recordings([folder])
    step = max(1, len(paths) // max(1, most // (MOST_OF_ONE // 2)))
    for path in paths[::step]:
        name = recording_file.get_recording_name(path)
        number = 0
        for seq, line in enumerate(recording_file.read_chat_recording(path), 1):
            text = content(line.message)
            if line.message["role"] == "assistant":
                sentences += [Said(name, seq, one.strip()) for one in _SENTENCE.split(text)]
            elif line.message["role"] in ("user", "tool") and text.strip():
                texts.append(Text(name, seq, text))
                number += 1
            if number >= MOST_OF_ONE or len(texts) >= most:
                break
    return texts, sentences


def names_in(text: str) -> set[str]:
    return {name.strip(".:/-").lower() for name in _NAME.findall(text)} - {""}


def questions(texts: Sequence[Text], sentences: Sequence[Said]) -> Iterator[Query]:
    """The rule at the top of this file: no text is chosen by whether anything finds it."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        for name in names_in(text.text):
            places[name].append(place)
    counts: Counter[str] = Counter()
    for session, seq, sentence in sentences:
        words = _WORD.findall(_NAME.sub(" ", sentence))
        if not 6 <= len(words) <= 40 or counts[session] >= 12:
            continue
        rare = [name for name in sorted(names_in(sentence)) if len(name) >= 5 and 1 <= len(places.get(name, ())) <= 3]
        firsts = [places[name][0] for name in rare]
        fair = [place for place in firsts if texts[place].session == session and texts[place].seq + APART <= seq]
        if fair:
            counts[session] += 1
            yield Query("named", sentence[:300], min(fair))
            yield Query("described", " ".join(words), min(fair))


# --- ranking ------------------------------------------------------------------------------------------------------


def by_words(texts: Sequence[Text], queries: Sequence[Query], folder: Path) -> tuple[Ranks, dict[str, float]]:
    places = {(text.session, text.seq): place for place, text in enumerate(texts)}
    lines = [LogLine(*text) for text in sorted(texts)]
    path = folder / "search.db"
    search = Search(logs=lambda head: [] if head(lines[0].session) else lines, path=path)
    began = time.process_time()
    search.refresh()
    indexed_at = time.process_time()
    ranks = [[places[hit.name, hit.place] for hit in search.search(query.text, KEPT)] for query in queries]
    start = time.process_time()
    search.close()
    figures = {
        "index_s": indexed_at - began,
        "query_ms": 1e3 * (start - indexed_at) / max(1, len(queries)),
        "disk_bytes": float(path.stat().st_size),
    }
    return ranks, figures


def by_meaning(model: str, texts: Sequence[Text], queries: Sequence[Query]) -> tuple[Ranks, dict[str, float]]:
    job = json.dumps({"texts": [text.text for text in texts], "queries": [query.text for query in queries]})
    command = [str(PYTHON), str(BENCH / "runners" / "embedding_search.py"), model]
    # One thread: what is compared is work, and CPU time of two that wait for each other is not work.
    around = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.run(command, input=job, capture_output=True, text=True, env=around, check=True)
    answer: dict[str, Any] = json.loads(process.stdout)
    ranks: Ranks = answer.pop("ranks")
    return ranks, {"disk_bytes": answer["vector_bytes"] + answer["package_bytes"], **answer}


def fuse_ranks(some: Ranks, others: Ranks) -> Ranks:
    ranks: Ranks = []
    for lists in zip(some, others, strict=True):
        scores: Counter[int] = Counter()
        for ranking in lists:
            for rank, place in enumerate(ranking, 1):
                scores[place] += 1 / (FUSION + rank)  # type: ignore[assignment] # a tally of fractions
        ranks.append([place for place, _ in scores.most_common(KEPT)])
    return ranks


# --- the report ---------------------------------------------------------------------------------------------------


class Score(NamedTuple):
    queries: int
    first: float
    five: float
    mrr: float


def score_ranks(queries: Sequence[Query], ranks: Ranks, kind: str) -> Score:
    at = [
        ranking.index(query.wanted) + 1 if query.wanted in ranking else 0
        for query, ranking in zip(queries, ranks, strict=True)
        if query.kind == kind
    ]
    many = max(1, len(at))
    return Score(
        len(at),
        sum(rank == 1 for rank in at) / many,
        sum(0 < rank <= 5 for rank in at) / many,
        sum(1 / rank for rank in at if rank) / many,
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=400, help="texts in the corpus")
    parser.add_argument("--models", default="wordllama,minilm")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def rank_all(
    texts: Sequence[Text], queries: Sequence[Query], models: Sequence[str]
) -> tuple[dict[str, Ranks], dict[str, dict[str, float]]]:
    """Every way to search, and what each costs."""
    ways: dict[str, Ranks] = {}
    costs: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        ways["full text"], costs["full text"] = by_words(texts, queries, Path(folder))
    for model in models:
        ways[model], costs[model] = by_meaning(model, texts, queries)
        ways[f"full text + {model}"] = fuse_ranks(ways["full text"], ways[model])
    return ways, costs


def main() -> int:
    options = parse_options()
    models = options.models.split(",") if options.models and PYTHON.exists() else []
    if not models:
        print("no embeddings: none asked for, or no environment (make peers)", file=sys.stderr)
    texts, sentences = sample_texts(options.folder, options.messages)
    queries = list(questions(texts, sentences))[: 2 * MOST_QUERIES]
    notes = [Text("notes", number, note) for number, (note, _) in enumerate(NOTES, 1)]
    queries += [Query("paraphrased", question, len(texts) + at) for at, (_, question) in enumerate(NOTES)]
    alone = [Query("paraphrased, notes alone", question, at) for at, (_, question) in enumerate(NOTES)]
    ways, costs = rank_all([*texts, *notes], queries, models)
    for way, ranks in rank_all(notes, alone, models)[0].items():
        shift = [[place + len(texts) for place in some] for some in ranks]
        ways[way] = ways[way] + shift
    queries += [query._replace(wanted=query.wanted + len(texts)) for query in alone]
    report([*texts, *notes], queries, ways, costs, as_json=options.json)
    return 0


def report(
    texts: Sequence[Text],
    queries: Sequence[Query],
    ways: dict[str, Ranks],
    costs: dict[str, dict[str, float]],
    *,
    as_json: bool,
) -> None:
    kinds = list(dict.fromkeys(query.kind for query in queries))
    scores = {way: {kind: score_ranks(queries, ranks, kind) for kind in kinds} for way, ranks in ways.items()}
    if as_json:
        plain = {way: {kind: score._asdict() for kind, score in some.items()} for way, some in scores.items()}
        print(json.dumps({"texts": len(texts), "scores": plain, "costs": costs}, indent=1))
        return
    print(f"{len(texts)} texts, {sum(len(text.text) for text in texts) / 1e6:.1f} million characters")
    for kind in kinds:
        print(f"\n{kind} ({scores['full text'][kind].queries})".ljust(28) + "recall@1  recall@5    MRR")
        for way in ways:
            score = scores[way][kind]
            print(f"  {way:<25} {score.first:8.2f}  {score.five:8.2f}  {score.mrr:6.2f}")
    for way, cost in costs.items():
        figures = ", ".join(f"{what} {value:,.2f}" for what, value in cost.items())
        print(f"\n{way}: {figures}")


if __name__ == "__main__":
    sys.exit(main())
