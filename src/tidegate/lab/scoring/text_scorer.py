"""Check which of the texts that the agent needed (`text_needs.py`) are in the requests of one policy in one window."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, Generic, TypeVar

import msgspec

from tidegate.lab.scoring.occurrences import contains_whole_name
from tidegate.lab.scoring.text_needs import (
    PAGE_BREAK,
    RuleSentence,
    TextNeed,
    clean_lines,
    flatten_spaces,
    join_lines,
)

_RULES_EVERY: Final = 10
"""Rules are looked for in every tenth request beyond the window: they hardly change between two requests."""
_AVOIDABLE_SHARE: Final = 0.9
_T = TypeVar("_T")


class KeptShare(msgspec.Struct):
    """How much was kept of a number of needs. A need that is kept in part counts as a share."""

    kept: float = 0
    total: int = 0

    @property
    def value(self) -> float | None:
        return self.kept / self.total if self.total else None


class TextFigures(msgspec.Struct):
    """The kept texts of one recording under one policy in one window."""

    reread_avoidable: KeptShare = msgspec.field(default_factory=KeptShare)
    reread_lines: KeptShare = msgspec.field(default_factory=KeptShare)
    far_block: KeptShare = msgspec.field(default_factory=KeptShare)
    near_block: KeptShare = msgspec.field(default_factory=KeptShare)
    far_lines: KeptShare = msgspec.field(default_factory=KeptShare)
    refs_in_context: KeptShare = msgspec.field(default_factory=KeptShare)
    typed_rules: KeptShare = msgspec.field(default_factory=KeptShare)
    deep_rules: KeptShare = msgspec.field(default_factory=KeptShare)

    def compute_measures(self) -> dict[str, float | None]:
        return {name: share.value for name, share in msgspec.structs.asdict(self).items()}


class TextScorer:
    """Call `add_request` for each request with its needs; a request that is never added counts as holding nothing.

    `tokens_before` are the tokens before each message. Only requests (for `answer_indices`) whose history is longer
    than the window are asked.
    """

    def __init__(
        self,
        needs: Sequence[TextNeed],
        rules: Sequence[RuleSentence],
        *,
        answer_indices: Sequence[int],
        tokens_before: Sequence[float],
        window: int,
        common_names: frozenset[str] = frozenset(),
    ) -> None:
        self.figures = TextFigures()
        self._half_window = window / 2
        self._tokens_before = tokens_before
        answers_beyond = [at for at in answer_indices if tokens_before[at] > window]
        self._needs: dict[int, list[TextNeed]] = {at: [] for at in answers_beyond}
        for need in needs:
            if need.message_index in self._needs and self._is_asked(need) and need.name not in common_names:
                self._needs[need.message_index].append(need)
        self._rules = {at: self._far_rules(at, rules) for at in answers_beyond[_RULES_EVERY - 1 :: _RULES_EVERY]}
        self._lines = _Memo(lambda text: frozenset(clean_lines(text)))
        self._blocks = _Memo(lambda text: join_lines(clean_lines(text)))
        self._flat = _Memo(flatten_spaces)
        self._count_totals()

    def _is_asked(self, need: TextNeed) -> bool:
        return need.kind == "block" or need.tokens_back > self._half_window

    def _far_rules(self, at: int, rules: Sequence[RuleSentence]) -> list[RuleSentence]:
        before = self._tokens_before
        return [
            rule
            for rule in rules
            if rule.message_index < at and before[at] - before[rule.message_index + 1] > self._half_window
        ]

    def _shares_of(self, need: TextNeed) -> list[KeptShare]:
        figures = self.figures
        if need.kind == "reread":
            return [figures.reread_avoidable, figures.reread_lines]
        if need.kind == "block":
            return [figures.far_block if need.tokens_back > self._half_window else figures.near_block]
        return [figures.far_lines if need.kind == "line" else figures.refs_in_context]

    def _share_of_rule(self, rule: RuleSentence) -> KeptShare:
        return self.figures.deep_rules if rule.is_deep else self.figures.typed_rules

    def _count_totals(self) -> None:
        for needs in self._needs.values():
            for need in needs:
                for share in self._shares_of(need):
                    share.total += 1
        for rules in self._rules.values():
            for rule in rules:
                self._share_of_rule(rule).total += 1

    def has_needs(self, at: int) -> bool:
        return bool(self._needs.get(at) or self._rules.get(at))

    def add_request(self, at: int, texts: Sequence[str]) -> None:
        """`texts` are the searchable texts of the request's messages."""
        sent_text = _SentText(texts, self._lines, self._blocks, self._flat)
        for need in self._needs.get(at, ()):
            share = _find_share(need, sent_text)
            shares = self._shares_of(need)
            if need.kind == "reread":
                shares[0].kept += share >= _AVOIDABLE_SHARE
            shares[-1].kept += share
        for rule in self._rules.get(at, ()):
            self._share_of_rule(rule).kept += rule.sentence in sent_text.flat


def _find_share(need: TextNeed, request_text: "_SentText") -> float:
    text, *contexts = need.texts
    if need.kind == "reread":
        return sum(line in request_text.lines for line in need.texts) / len(need.texts)
    if need.kind == "block":
        return text in request_text.blocks
    if need.kind == "line":
        return text in request_text.lines or text in request_text.blocks
    return contains_whole_name(request_text.text, text) and any(context in request_text.text for context in contexts)


class _Memo(dict[str, _T], Generic[_T]):
    """A function of a text with its results: most messages of a request are in the next one, too."""

    def __init__(self, make: Callable[[str], _T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> _T:
        value = self[text] = self._make(text)
        return value


class _SentText:
    """The text of one request, in the forms in which it is searched."""

    def __init__(
        self,
        texts: Sequence[str],
        lines: Mapping[str, frozenset[str]],
        blocks: Mapping[str, str],
        flat: Mapping[str, str],
    ) -> None:
        self._texts, self._lines, self._blocks, self._flat = texts, lines, blocks, flat

    @cached_property
    def text(self) -> str:
        return PAGE_BREAK.join(self._texts)

    @cached_property
    def lines(self) -> set[str]:
        return set[str]().union(*(self._lines[text] for text in self._texts))

    @cached_property
    def blocks(self) -> str:
        return PAGE_BREAK.join(self._blocks[text] for text in self._texts)

    @cached_property
    def flat(self) -> str:
        return PAGE_BREAK.join(self._flat[text] for text in self._texts)
