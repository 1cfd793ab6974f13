"""A hint when the user names something that left: one line at the end, where it moves nothing that is cached."""

from tidegate.core.budget import Budget
from tidegate.core.edits import Insert
from tidegate.core.ledger_lines import read_lines
from tidegate.core.messages import NOTE, is_request, text_of, user
from tidegate.core.outcome import NOTHING, Outcome
from tidegate.core.targets import files_in, last_name
from tidegate.core.view import View

HINT = "[Left the view, and can be had back: "


def hint(view: View, budget: Budget, *, most: int = 3) -> Outcome:
    """Say how to recall the files that the new request names, if their contents left: at most so many of them."""
    asked = next((item.message for item in reversed(view.fresh()) if is_request(item.message)), None)
    if asked is None or not view.held or view.items[-1].message.id != asked.id:
        return NOTHING
    names = files_in(text_of(asked))
    whole = {item.message.id for item in view.items if not item.edited}
    lines = read_lines("\n".join(text_of(item.message) for item in view.held)) if names else []
    found = {
        last_name(line.text): f"{line.text} ({line.what}): recall {line.ident}"
        for line in lines
        if line.ident and line.listed and line.ident not in whole and last_name(line.text) in names
    }
    if not found:
        return NOTHING
    text = HINT + "; ".join(list(found.values())[:most]) + "]"
    return Outcome((Insert(user(text, NOTE), asked.id),), why=f"{len(found)} files named that left", grows=True)
