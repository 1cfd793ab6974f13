"""A stage: tool results whose exact text occurs again later are shortened to a note."""

from tidegate import Budget, Edit, Outcome, Replace, Result, Text, View


def shorten_repeats(view: View, budget: Budget, *, min_chars: int = 200) -> Outcome:
    """Shorten every tool result of at least `min_chars` characters that a later result repeats word for word."""
    newest: dict[str, str] = {}
    edits: list[Edit] = []
    for item in reversed(view.items):
        for part in item.message.parts:
            if not isinstance(part, Result) or not all(isinstance(each, Text) for each in part.parts):
                continue
            text = "".join(each.text for each in part.parts if isinstance(each, Text))
            if len(text) < min_chars:
                continue
            if text in newest:
                note = Text(f"[the same text as in {newest[text]}, which is still shown]")
                edits.append(Replace(item.message.id, (Result(part.call_id, (note,), part.error),)))
            else:
                newest[text] = item.message.id
    return Outcome(tuple(edits), why=f"{len(edits)} results are repeated by a later one")
