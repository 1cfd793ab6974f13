"""`undo` and `redo`: undo the newest compaction of a session, or make it again."""

from argparse import Namespace
from typing import Final

from tidegate.commands.operations.operation import Operation, OperationResult, SessionPlace


def _undo(place: SessionPlace, _: Namespace) -> OperationResult:
    before = place.measure()
    seq = place.session().history.undo()
    return (
        _describe(place, before, seq, "is undone") if seq else OperationResult("There is no compaction to undo.", False)
    )


def _redo(place: SessionPlace, _: Namespace) -> OperationResult:
    before = place.measure()
    seq = place.session().history.redo()
    return _describe(place, before, seq, "is applied again") if seq else OperationResult("Nothing was undone.", False)


def _describe(place: SessionPlace, before: int, seq: int, verb: str) -> OperationResult:
    size = f"{place.size_name}: {before:,} -> {place.measure():,} tokens"
    return OperationResult(f"The edit at record {seq} {verb}. {size}.")


UNDO: Final = Operation(
    "undo",
    "undo the newest compaction",
    "Undo the newest compaction of a session. Messages added since then stay.",
    ("build-fix",),
    _undo,
    changes_session=True,
)
REDO: Final = Operation(
    "redo",
    "redo the compaction that was undone last",
    "Redo the compaction that was undone last.",
    ("build-fix",),
    _redo,
    changes_session=True,
)
OPERATIONS: Final = (UNDO, REDO)
