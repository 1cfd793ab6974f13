"""Recorded state notes: written by a model beforehand, and what they change in the figures of a comparison."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.policy.policy import Policy
from tidegate.core.text.plural import format_count
from tidegate.core.usage import Usage
from tidegate.lab.comparison.cells import ComparisonCell, run_contender
from tidegate.lab.comparison.runner import ComparisonPlan, ComparisonResults
from tidegate.lab.comparison.session_sources import create_recording_mask, load_recording
from tidegate.lab.probe.probe import mask_values
from tidegate.lab.replay.recorded_notes import NoteFolder, RecordedNote, ReplayedQuestion
from tidegate.models.provider import Provider, collect_reply
from tidegate.session.note_writer import NoteRefused, explain_failure, read_answer
from tidegate.session.session import Session
from tidegate.session.state_notes import count_answer_tokens
from tidegate.wire.answers import read_usage

_UNLIMITED_WINDOW: Final = 10_000_000


class WrittenNotes(msgspec.Struct):
    """What was written: new notes, those that were there already, why others failed, and what the model reported."""

    written: int = 0
    known: int = 0
    failures: list[str] = []
    usage: Usage = Usage(0, 0, 0, 0)


async def write_notes(
    plan: ComparisonPlan, provider: Provider, folder: NoteFolder, on_progress: Callable[[int], None]
) -> WrittenNotes:
    """Replay every cell and have a model write each note that is due. Notes in the folder are not written again."""
    notes = WrittenNotes()
    for cell in plan.list_cells():
        if not cell.contender.peer_name:
            await _write_notes_of(cell, provider, folder, notes)
        on_progress(1)
    return notes


async def _write_notes_of(cell: ComparisonCell, provider: Provider, folder: NoteFolder, notes: WrittenNotes) -> None:
    recording = load_recording(cell.source.path, cell.source.index_in_file)
    mask, loop = create_recording_mask(recording), asyncio.get_running_loop()

    def answer(question: ReplayedQuestion) -> str | None:
        record = folder.read(question.key)
        if record is not None:
            notes.known += 1
            return record.answer
        try:
            text, usage = asyncio.run_coroutine_threadsafe(_ask(question, provider, mask), loop).result()
        except (TidegateError, NoteRefused) as failure:
            notes.failures.append(str(explain_failure(failure)))
            return None
        folder.write(RecordedNote(question.key, provider.model, text))
        notes.written += 1
        notes.usage = Usage(*(mine + more for mine, more in zip(notes.usage, usage, strict=True)))
        return text

    await asyncio.to_thread(run_contender, cell, recording, lambda _: None, lambda: False, answer)


async def _ask(question: ReplayedQuestion, provider: Provider, mask: Callable[[str], str]) -> tuple[str, Usage]:
    """Ask the model with everything that the agent would have sent, and nothing else. Secrets are masked."""
    session = Session(
        provider.model,
        policy=Policy("notes", {}),
        wire=provider.wire,
        window=_UNLIMITED_WINDOW,
        system=mask(question.system),
        max_tokens=count_answer_tokens(question.task),
    )
    messages = [message for message in question.messages if message["role"] not in ("system", "developer")]
    session.add(*(mask_values(message, mask) for message in messages))
    session.add({"role": "user", "content": mask(question.task.instruction)})
    reply = await collect_reply(provider, session.render_request().to_bytes())
    return read_answer(reply, provider.wire), read_usage(reply.usage)


# --- what notes change in a comparison ----------------------------------------------------------------------------


class NoteEffect(NamedTuple):
    """The cost of a policy with recorded notes and without, over the sessions that were measured both ways."""

    policy: str
    window: int
    notes: int
    missing: int
    unusable: int
    dollars: float
    note_dollars: float
    dollars_without: float

    def describe(self) -> str:
        line = f"State notes, {self.policy} at {self.window:,}: {self.notes:,} used, {self.missing:,} missing"
        line += f", {self.unusable:,} unusable" if self.unusable else ""
        if not self.dollars_without:
            return f"{line}."
        ratio, share = self.dollars / self.dollars_without, self.note_dollars / self.dollars_without
        return (
            f"{line}; cost ${self.dollars:.4f} with them, ${self.dollars_without:.4f} without: {ratio:.3f} times"
            f" (writing them: {share:.3f})."
        )


def compare_with_notes(with_notes: ComparisonResults, plain: ComparisonResults) -> list[NoteEffect]:
    """The effect of recorded notes on each policy in each window."""
    effects: list[NoteEffect] = []
    for window in with_notes.plan.windows:
        for contender in with_notes.plan.contenders:
            there, without = with_notes.figures_of(window, contender.key), plain.figures_of(window, contender.key)
            pairs = [(there[key], without[key]) for key in there.keys() & without.keys()]
            notes = sum(len(one.used_notes) for one, _ in pairs)
            missing = sum(one.missing_notes for one, _ in pairs)
            if contender.peer_name or not (notes or missing):
                continue
            effects.append(
                NoteEffect(
                    contender.key,
                    window,
                    notes,
                    missing,
                    sum(one.unusable_notes for one, _ in pairs),
                    sum(one.dollars for one, _ in pairs),
                    sum(one.note_dollars for one, _ in pairs),
                    sum(other.dollars for _, other in pairs),
                )
            )
    return effects


def list_unused_notes(results: ComparisonResults, folder: NoteFolder) -> list[str]:
    """The keys of recorded notes that no sweep of the comparison asked for."""
    figures = [each for by_key in results.figures.values() for some in by_key.values() for each in some.values()]
    used_keys = {key for each in figures for key in each.used_notes}
    return [key for key in folder.list_keys() if key not in used_keys]


def describe_notes(with_notes: ComparisonResults, plain: ComparisonResults, folder: Path) -> Sequence[str]:
    """Lines for the report of a comparison with recorded notes."""
    lines = [effect.describe() for effect in compare_with_notes(with_notes, plain)]
    if unused := list_unused_notes(with_notes, NoteFolder(folder)):
        names = ", ".join(unused[:3]) + (", ..." if len(unused) > 3 else "")
        lines.append(f"{format_count(len(unused), 'recorded note')} for other content not used: {names}.")
    return lines
