"""A provider said how much output a model gives at most: no more is asked of it from now on."""

from tidegate.session.session import Session


def lower_output(session: Session, most: int) -> bool:
    """False if no more than that was asked for: then that was not what was wrong."""
    if not session._rendering.lower_output(most):
        return False
    session.note_model()
    return True
