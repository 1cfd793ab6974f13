"""Extract from a recorded session which parts of its past it needed: once per recording, for all policies.

Three signals here, each checkable in a request without a model; `text_needs.py` adds those that are more than a name:

- a *reference*: a name in the arguments of a call that occurred earlier in a user message or a tool result;
- an *edit anchor*: a line of the old text that an edit quotes word for word, and that occurred earlier;
- the words of the user, in pieces.

Each has the distance to its last occurrence.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tidegate.lab.scoring.identifiers import (
    PATH_SUFFIX_KIND,
    SYMBOL_KIND,
    Identifier,
    chat_text_of,
    find_identifiers,
    flatten_arguments,
    iterate_chat_calls,
    iterate_path_suffixes,
    searchable_text_of,
)
from tidegate.lab.scoring.occurrences import PageStream, WordPageIndex
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.text_needs import (
    Need,
    RuleSentence,
    TextNeed,
    find_rules,
    find_text_needs,
    read_call_arguments,
)

ANCHOR_KIND: Final = "anchor"
_MIN_ANCHOR_CHARS: Final = 25
"""Characters: a shorter line occurs in many places and proves nothing."""
_PIECE_CHARS: Final = 100
_MAX_USER_CHARS: Final = 2_000
"""Characters of each user message that are looked for: a pasted file is not the user's words."""

_OLD_TEXT_KEYS: Final = ("old_string", "old_str", "oldText", "oldString")
_Json = dict[str, Any]


class UserWords(msgspec.Struct, frozen=True, array_like=True):
    """A user message as pieces: their numbers in `SessionSignals.pieces`, and their lengths."""

    message_index: int
    pieces: list[int]
    lengths: list[int]


class SessionSignals(msgspec.Struct):
    """The needs of one session. `answer_indices` are the indices of assistant messages; `units_before` the units before
    each message, plus the total at the end.
    """

    answer_indices: list[int]
    units_before: list[int]
    references: list[Need]
    anchors: list[Need]
    pieces: list[str]
    user_words: list[UserWords]
    text_needs: list[TextNeed]
    rules: list[RuleSentence]


def extract_signals(messages: Sequence[_Json], ruler: UnitCounter) -> SessionSignals:
    pages = [searchable_text_of(message) for message in messages]
    shelf = WordPageIndex(pages)
    searched = _SearchablePages.of(messages, pages, shelf, ruler)
    history = [0]
    for message in messages:
        history.append(history[-1] + ruler.count_message(message))
    pieces: dict[str, int] = {}
    words = list(_split_user_messages(messages, pieces))
    references = list(_find_references(messages, searched))
    tokens_before = [units / ruler.units_per_token for units in history]
    return SessionSignals(
        answer_indices=[at for at, message in enumerate(messages) if message["role"] == "assistant"],
        units_before=history,
        references=references,
        anchors=list(_find_anchors(messages, shelf, ruler)),
        pieces=list(pieces),
        user_words=words,
        text_needs=find_text_needs(messages, tokens_before, references),
        rules=list(find_rules(messages)),
    )


def list_argument_names(messages: Sequence[_Json]) -> list[str]:
    """Return every name in the heads of a session's arguments, to find names common to many projects."""
    names: dict[str, None] = {}
    for message in messages:
        for call in iterate_chat_calls(message):
            names.update(dict.fromkeys(name for name, _ in _identifiers_of(call)))
    return list(names)


def _identifiers_of(call: _Json) -> list[Identifier]:
    arguments = call["arguments"]
    return find_identifiers(arguments if isinstance(arguments, str) else json.dumps(arguments))


class _SearchablePages(NamedTuple):
    everything: PageStream
    outside_texts: PageStream
    """User messages and tool results: what the agent did not write itself."""
    distance: "_Distance"

    @classmethod
    def of(
        cls, messages: Sequence[_Json], pages: list[str], shelf: WordPageIndex, ruler: UnitCounter
    ) -> "_SearchablePages":
        outside_places = [at for at, message in enumerate(messages) if message["role"] in ("user", "tool")]
        everything = PageStream(pages, shelf)
        return cls(everything, PageStream(pages, shelf, outside_places), _Distance(everything, messages, pages, ruler))


class _Distance:
    """Counts the tokens between an offset and a message: by characters, or by the counted tokens of the messages."""

    def __init__(self, stream: PageStream, messages: Sequence[_Json], pages: Sequence[str], ruler: UnitCounter) -> None:
        self._stream = stream
        self._per = ruler.units_per_token if ruler.by_characters else 0
        self._lengths = [len(page) + 1 for page in pages]
        self._tokens: list[int] = [0]
        if not self._per:
            for message in messages:
                self._tokens.append(self._tokens[-1] + ruler.count_message(message))

    def __call__(self, place: int, at: int) -> float:
        if self._per:
            return (self._stream.page_start(at) - place) // self._per
        page = self._stream.page_at(max(place, 0))
        into = (max(place, 0) - self._stream.page_start(page)) / self._lengths[page]
        size = self._tokens[page + 1] - self._tokens[page]
        return self._tokens[at] - self._tokens[page] - into * size


def _find_references(messages: Sequence[_Json], searched: _SearchablePages) -> Iterator[Need]:
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        kinds_by_name: dict[str, str] = {}
        for call in iterate_chat_calls(message):
            for name, kind in _identifiers_of(call):
                kinds_by_name.setdefault(name, kind)
        for name, kind in kinds_by_name.items():
            if kind == SYMBOL_KIND:
                continue
            earlier_name = _find_earlier_name(name, kind, at, searched.outside_texts)
            if earlier_name is not None:
                place = searched.everything.find_last(earlier_name.name, at)
                page = searched.everything.page_at(place)
                yield Need(at, name, earlier_name.name, earlier_name.kind, searched.distance(place, at), page)


def _find_earlier_name(name: str, kind: str, at: int, pages: PageStream) -> Identifier | None:
    """Return the name, or the longest end of a path, that an earlier user message or tool result contains."""
    if pages.find_last(name, at) >= 0:
        return Identifier(name, kind)
    for end in iterate_path_suffixes(name) if kind == "path" else ():
        if end and pages.find_last(end, at) >= 0:
            return Identifier(end, PATH_SUFFIX_KIND)
    return None


def _find_anchors(messages: Sequence[_Json], shelf: WordPageIndex, ruler: UnitCounter) -> Iterator[Need]:
    """Find edit anchors in contents, not in the names of calls."""
    pages = [
        "\n".join(
            [
                chat_text_of(message),
                "\n".join(flatten_arguments(call["arguments"]) for call in iterate_chat_calls(message)),
            ]
        )
        for message in messages
    ]
    stream = PageStream(pages, shelf)
    distance = _Distance(stream, messages, pages, ruler)
    for at, message in enumerate(messages):
        for call in iterate_chat_calls(message):
            for old in _read_old_texts(call):
                lines = [line.strip() for line in old.splitlines() if len(line.strip()) >= _MIN_ANCHOR_CHARS]
                for line in lines[:1]:
                    place = stream.find_last(line, at, whole=False)
                    if place >= 0:
                        yield Need(at, line, line, ANCHOR_KIND, distance(place, at), stream.page_at(place))


def _read_old_texts(call: _Json) -> list[str]:
    arguments = read_call_arguments(call)
    if not isinstance(arguments, dict):
        return []
    if call["name"] == "apply_patch" and isinstance(arguments.get("input"), str):
        return ["\n".join(line[1:] for line in arguments["input"].splitlines() if line[:1] in (" ", "-"))]
    return [arguments[key] for key in _OLD_TEXT_KEYS if isinstance(arguments.get(key), str)]


def _split_user_messages(messages: Sequence[_Json], pieces: dict[str, int]) -> Iterator[UserWords]:
    for at, message in enumerate(messages):
        text = chat_text_of(message)[:_MAX_USER_CHARS] if message["role"] == "user" else ""
        if text.strip():
            cut = [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]
            yield UserWords(at, [pieces.setdefault(piece, len(pieces)) for piece in cut], [len(piece) for piece in cut])
