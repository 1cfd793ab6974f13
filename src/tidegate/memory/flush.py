"""What leaves the view goes into the day's note. Given to a session as its `carry`:

    Session(..., carry=Remember(notes, "my-session", others=files))

It raises when the note could not be written. The plan then leaves the view as it is: nothing is lost unsaved.
"""

from collections.abc import Callable, Sequence

from tidegate.core.messages import Message, is_request, text_of
from tidegate.core.outcome import Effect, Flush
from tidegate.memory.notes import Notes


class Remember:
    """Takes the Flush effects of a policy; every other effect goes to `others`."""

    def __init__(self, notes: Notes, session: str = "", *, others: Callable[[Effect], None] | None = None) -> None:
        self.notes = notes
        self.session = session
        self._others = others

    def __call__(self, effect: Effect) -> None:
        if not isinstance(effect, Flush):
            if self._others is None:
                raise TypeError(f"Nobody carries out a {type(effect).__name__}: give Remember its `others`.")
            self._others(effect)
        elif effect.text.strip():
            self.notes.add(effect.text, source=self.session, title=title_of(effect.request.messages))


def title_of(messages: Sequence[Message]) -> str:
    """What it was about, in the words of who asked: the first line of the first request."""
    asked = next((text for message in messages if is_request(message) and (text := text_of(message).strip())), "")
    return asked.split("\n", 1)[0] or f"{len(messages)} messages"
