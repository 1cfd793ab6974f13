"""The sessions that an adapter found by their messages, because the framework's ids do not tell them apart.

A list of messages continues a session if it begins with everything that the session has on its current branch
(`count_continued`), and with the list that got the session last: that one may not be logged yet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.session.following import HostItem, count_continued
from tidegate.session.host_tree import ROOT, HostTree


@dataclass
class _FoundSession:
    """`items` are the list that got the session last, and `ids` its messages in the log, as far as they were matched.

    `is_unanswered`: the call with this list failed.
    """

    name: str
    items: list[HostItem[Any]]
    ids: list[str] = field(default_factory=list)
    is_unanswered: bool = False

    def is_continued_by(self, items: Sequence[HostItem[Any]]) -> bool:
        """Whether a list begins with that of this session. As a rule its items are the same objects."""
        beginning = list(items[: len(self.items)])
        return beginning == self.items or [item.key for item in beginning] == [item.key for item in self.items]


class FoundSessions:
    """Finds a session again. `get_tree` returns the tree of an open session, None if it is not open."""

    def __init__(self, get_tree: Callable[[str], HostTree | None]) -> None:
        self._get_tree = get_tree
        self._alike: dict[tuple[str, str], dict[str, _FoundSession]] = {}
        self._places: dict[str, tuple[str, str]] = {}  # by name: where it is

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def find(self, base: str, items: Sequence[HostItem[Any]]) -> tuple[str, int]:
        """The session that the list continues, of those that were added under this base, and how many messages of it
        the list has. If there are several, the one with most of them."""
        alike = self._alike.get((base, _get_first_key(items)), {}).values()
        counted = ((known.name, self._count_continued(known, items)) for known in alike)
        return max((each for each in counted if each[1]), key=lambda each: each[1], default=("", 0))

    def _count_continued(self, known: _FoundSession, items: Sequence[HostItem[Any]]) -> int:
        tree = self._get_tree(known.name)
        if tree is None or not known.is_continued_by(items):
            return 0
        unmatched = known.items[len(known.ids) :]
        known.ids += tree.match([item.key for item in unmatched], known.ids[-1] if known.ids else ROOT)
        is_retry = known.is_unanswered and len(known.ids) == len(items)
        return len(items) if is_retry else count_continued(tree, items, known.ids)

    def add(self, base: str, name: str, items: Sequence[HostItem[Any]]) -> None:
        """Note that a list got this session."""
        place = base, _get_first_key(items)
        known = self._alike.setdefault(place, {}).setdefault(name, _FoundSession(name, []))
        known.items, known.is_unanswered = list(items), False
        self._places[name] = place

    def expect_retry(self, name: str) -> None:
        """Note that a call got no whole answer. The next list like its own is the same call again, not another one."""
        if name in self._places:
            self._alike[self._places[name]][name].is_unanswered = True

    def forget(self, name: str) -> None:
        place = self._places.pop(name, None)
        if place is not None:
            del self._alike[place][name]
            if not self._alike[place]:
                del self._alike[place]


def _get_first_key(items: Sequence[HostItem[Any]]) -> str:
    return items[0].key if items else ""
