"""Answers that the provider stored, and requests that continue one by its id.

For each such answer the log has a note: the id, and a hash of the view to which it is the answer. So the log knows what
the provider has stored under the id. If the view of a request that names the id begins with just that, the request is
sent as it is, and the provider puts what it has before it. If the view is another by now, because the request would
overflow the window, the whole view is written and sent without the id. The answer to it is stored under an id of its
own, and the next request can name that.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidegate.core.notes import StoredAnswerNote
from tidegate.wire.rendering.blocks import JsonObject


class StoredAnswer(NamedTuple):
    """An answer that the provider stored. `message` is its id in the log, `view` the hash of what it answers.

    The client knows it by `id`, the provider by `provider_id`: if the gateway answered calls itself, the client has the
    id of the first of several answers. `leading` are the items before the first message, which no later request
    repeats; they are in the note of the answer `root` if they are the same as there.
    """

    id: str
    message: str
    view: str
    provider_id: str
    phases: Sequence[str]
    leading: Sequence[JsonObject]
    root: str


def describe_stored_answer(note: StoredAnswerNote, message: str) -> StoredAnswer:
    return StoredAnswer(note.id, message, note.view, note.sent or note.id, note.phases, note.leading, note.root)


def find_leading(answers: Mapping[str, StoredAnswer], answer: StoredAnswer) -> Sequence[JsonObject]:
    root = answers.get(answer.root)
    return answer.leading or (root.leading if root is not None else ())


def make_stored_note(
    answers: dict[str, StoredAnswer],
    ident: str,
    provider_id: str,
    view: str,
    phases: Sequence[str],
    leading: Sequence[JsonObject],
) -> StoredAnswerNote:
    """The note after an answer. `answers` are those of the log so far."""
    last = answers[next(reversed(answers))] if answers else None
    root = "" if last is None else last.root or last.id
    same = root and leading and list(find_leading(answers, answers[root])) == list(leading)
    return StoredAnswerNote(
        ident,
        view,
        "" if provider_id == ident else provider_id,
        list(phases),
        [] if same else list(leading),
        root if same else "",
    )


class StoredChain(NamedTuple):
    """What a request continues: an answer and everything before it. `phases` are those of answers before it."""

    answer: StoredAnswer
    leading: Sequence[JsonObject]
    phases: Mapping[str, Sequence[str]]


def list_phases_by_message(answers: Mapping[str, StoredAnswer]) -> dict[str, Sequence[str]]:
    return {each.message: each.phases for each in answers.values() if each.phases}
