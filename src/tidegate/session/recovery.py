"""Pictures that a provider will not take would be sent, and refused, again with every request: they leave the view."""

from typing import Final

from tidegate.core.edits import Replace
from tidegate.core.events import ViewEdited
from tidegate.core.messages import Image, Message, Part, Result, Text
from tidegate.session.session import Session

_OMITTED_IMAGE: Final = Text("[image left out: the provider did not take it]")


def omit_images(session: Session) -> int:
    """How many images a word stands for from now on. The log has them, and undo brings them back."""
    view, count = session.view, session.budget().count
    edits: list[Replace] = []
    images = before = after = 0
    for item in view.items:
        found = _count_images(item.message.parts)
        if found:
            parts = tuple(map(_replace_images, item.message.parts))
            tokens = count(Message(item.message.role, parts))
            edits.append(Replace(item.message.id, parts, tokens))
            images, before, after = images + found, before + item.tokens, after + tokens
    if edits:
        whole = view.tokens
        why = f"the provider did not take {images} images"
        session._append_edits(ViewEdited("media", "overflow", "", why, whole, whole - before + after, tuple(edits)))
    return images


def _count_images(parts: tuple[Part, ...]) -> int:
    return sum(_count_images(part.parts) if isinstance(part, Result) else isinstance(part, Image) for part in parts)


def _replace_images(part: Part) -> Part:
    if isinstance(part, Result):
        inner = tuple(_OMITTED_IMAGE if isinstance(each, Image) else each for each in part.parts)
        return Result(part.call_id, inner, part.error)
    return _OMITTED_IMAGE if isinstance(part, Image) else part


# A provider said how much output a model gives at most: no more is asked of it from now on.


def lower_output(session: Session, most: int) -> bool:
    """False if no more than that was asked for: then that was not what was wrong."""
    if not session._renderer.lower_output(most):
        return False
    session.record_model()
    return True
