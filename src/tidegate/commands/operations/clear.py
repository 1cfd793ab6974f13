"""`clear`: empty the context of a session. The log keeps everything, and pinned rules stay."""

from argparse import Namespace
from typing import Final

from tidegate.commands.operations.operation import Operation, OperationResult, SessionPlace


def _clear(place: SessionPlace, _: Namespace) -> OperationResult:
    from tidegate.core.ledger.writer import PIN, held_rules
    from tidegate.core.messages import user_message

    session = place.session()
    messages, tokens = session.view.message_count, session.view.tokens
    pinned = [line.text for line in held_rules(session.view) if line.what == PIN]
    session.history.clear()
    if pinned:
        session.add(*(user_message(text, PIN) for text in pinned))
    again = f" Pinned again: {len(pinned)}." if pinned else ""
    counts = f"{messages:,} messages, {tokens:,} tokens"
    return OperationResult(f"Removed {counts}. The log keeps them; `recall` finds them.{again}")


CLEAR: Final = Operation(
    "clear",
    "empty the context of a session",
    "Empty the context of a session. The log keeps everything; the next request starts without the earlier messages,"
    " but with the pinned rules.",
    ("build-fix",),
    _clear,
    changes_session=True,
)
OPERATIONS: Final = (CLEAR,)
