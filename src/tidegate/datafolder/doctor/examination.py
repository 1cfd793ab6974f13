"""Examines a data folder: every record, every pair, every file. Repairs what can be repaired and reports the rest.

    for finding in examine(data, repair=True):
        print(finding)

Without `repair` nothing is changed. With it, derived data is rebuilt, data that belongs to no session is moved away,
and damaged records are replaced by a note: the session then opens with all its other messages, and the remains of the
damaged ones are in `damaged/`. A session that is in use is examined but not changed.
"""

import os
from collections.abc import Callable, Iterator, Set
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tidegate.core.errors import BadInput, TidegateError
from tidegate.core.events import encode_event
from tidegate.core.log_fold import fold_log
from tidegate.core.notes import RecordsLost, is_note
from tidegate.core.snapshot import freeze_view
from tidegate.core.text.plural import format_count
from tidegate.core.tokens.counting import TokenEstimator, make_policy_meter
from tidegate.core.view import LogView
from tidegate.datafolder.contents import FolderContents
from tidegate.datafolder.doctor import folder_files as files
from tidegate.datafolder.doctor.finding import COMPLETED_LATER, Finding, Severity
from tidegate.datafolder.doctor.folder_files import DAMAGED_FOLDER, is_regular_file, move_to_damaged
from tidegate.datafolder.doctor.session_log import (
    LogSurvey,
    RecordFault,
    check_log,
    encode_lost_record,
    find_request_faults,
    impossible_values,
    survey_log,
)
from tidegate.datafolder.recall_files import is_recall_file
from tidegate.datafolder.trace.lines import decode_trace_line
from tidegate.datafolder.trace.writer import Trace, read_trace
from tidegate.datafolder.unfinished_changes import list_unfinished
from tidegate.disk.atomic_files import make_folder, write_atomically
from tidegate.disk.folder import session_file_key
from tidegate.store.blob_claims import BlobClaims
from tidegate.store.errors import DamagedData, SessionNotFound
from tidegate.store.session_log import KeptLog, store_if_large
from tidegate.store.sqlite import SqliteStore
from tidegate.store.sqlite.inspection import find_structure_faults, read_raw_rows
from tidegate.store.store import RewritableStore, SessionInfo

__all__ = ["Finding", "Severity", "examine_folder"]

ProgressCallback = Callable[[str, int, int], None]
"""Called with what is examined next, how many are done, and how many there are."""

_RESCUE_REMEDY = "Close all sessions and run `tidegate doctor --repair`: it rebuilds the file."
_RESTORE_REMEDY = "Put back a copy of the data folder if you have one; with --repair the session opens without them."


def _ignore_progress(what: str, count: int, of: int) -> None: ...


def examine_folder(
    data: FolderContents, *, repair: bool = False, progress: ProgressCallback = _ignore_progress
) -> Iterator[Finding]:
    yield from _report_hindrance(files.check_unfinished_changes(data, repair))
    unfinished = {change.session for change in list_unfinished(data)}
    sure, blob_hashes = True, set[str]()
    if isinstance(data.store, SqliteStore):
        faults = find_structure_faults(data.store.path)
        if faults:
            sure = False
            yield Finding(
                "", f"The database file is damaged in its structure: {faults[0][:200]}.", "broken", _RESCUE_REMEDY
            )
    try:
        infos = data.store.sessions()
    except TidegateError as damage:
        yield Finding("", damage.args[0], "broken", damage.remedy)
        sure, infos = False, []
    for number, info in enumerate(infos):
        progress(info.name, number, len(infos))
        looked = _examine_session(data, info, repair, is_unfinished=info.name in unfinished)
        sure = sure and looked.is_listed_correctly
        blob_hashes |= looked.needed_blobs
        yield from looked.findings
    progress("files", len(infos), len(infos))
    steps = [
        files.check_search_index(data, repair),
        files.check_notes(data),
        files.check_leftover_files(data, repair),
        files.check_permissions(data, repair),
    ]
    if sure:
        steps[:0] = [check_orphaned_files(data, unfinished, repair)]
        if not unfinished:
            steps.insert(1, check_unclaimed_blobs(data, blob_hashes, repair))
    else:
        yield Finding("", "The list of sessions cannot be trusted: no file of a session was touched.", "fine")
    for step in steps:
        yield from _report_hindrance(step)


def _report_hindrance(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Report an error of one check as a finding, so that the next check still runs."""
    try:
        yield from findings
    except (OSError, TidegateError) as hindrance:
        yield Finding("", f"Some files could not be examined: {hindrance}", "broken")


class _SessionReport(NamedTuple):
    """`needed_blobs` are the blobs that the log refers to; `is_listed_correctly`: the store finds it by its name."""

    findings: list[Finding]
    needed_blobs: Set[str] = frozenset()
    is_listed_correctly: bool = True


def _examine_session(data: FolderContents, info: SessionInfo, repair: bool, *, is_unfinished: bool) -> _SessionReport:
    """Examine one session under a lock: an exclusive one for repairs, else one that only prevents its removal."""
    name = info.name
    is_in_use = repair and data.locks.is_in_use(name)
    try:
        if repair and not is_in_use:
            with data.locks.exclusive(name):
                return _SessionExamination(data, info, repair=True, is_unfinished=is_unfinished).run()
        with data.locks.hold(name):
            looked = _SessionExamination(data, info, repair=False, is_unfinished=is_unfinished).run()
        if is_in_use:
            looked.findings.append(Finding(name, "It is in use: examined, not repaired.", "fine"))
        return looked
    except SessionNotFound:
        return _SessionReport([])  # removed meanwhile
    except (OSError, TidegateError) as hindrance:
        return _SessionReport([Finding(name, str(hindrance), "broken")], is_listed_correctly=False)


class _SessionExamination:
    """The checks of one session: its records first, then what is derived from them. Each needs the one before.

    `is_unfinished`: a change of it was interrupted, so that its claims and its trace need not fit its log yet.
    """

    def __init__(self, data: FolderContents, info: SessionInfo, *, repair: bool, is_unfinished: bool) -> None:
        self._data = data
        self._name, self._key = info.name, session_file_key(info.name)
        self._repair = repair
        self._head = info.head
        self._is_unfinished = is_unfinished
        self._findings: list[Finding] = []

    def run(self) -> _SessionReport:
        data = self._data
        survey = survey_log(data.store, data.blobs, self._name)
        if not survey.head:
            self._add(f"Its {self._head} records are not to be found under its name.", "broken", _RESTORE_REMEDY)
            return _SessionReport(self._findings, is_listed_correctly=False)
        if survey.faults:
            survey = self._mend_records(survey)
        if not self._is_unfinished:
            self._check_claims(survey)
        if not survey.faults:
            log = data.open_log(self._name)
            self._check_values(log)
            self._check_events(log)
            self._check_snapshot(log)
            if not self._is_unfinished:
                self._check_trace(log)
        return _SessionReport(self._findings, survey.blob_hashes)

    def _add(self, what: str, severity: Severity, remedy: str = "") -> None:
        self._findings.append(Finding(self._name, what, severity, remedy))

    def _add_mended(self, what: str, remedy: str = "With --repair it is put in order.") -> None:
        self._add(what, "mended" if self._repair else "broken", "" if self._repair else remedy)

    # --- records --------------------------------------------------------------------------------------------------

    def _mend_records(self, survey: LogSurvey) -> LogSurvey:
        for fault in survey.faults:
            if not (self._repair and fault.is_repairable):
                self._add(
                    _describe_fault(fault), "broken", _RESTORE_REMEDY if fault.is_repairable else "It is left as it is."
                )
        repairable = [fault for fault in survey.faults if fault.is_repairable]
        if not (self._repair and repairable):
            return survey
        try:
            places = [self._save_remains(fault) for fault in repairable]
            self._replace_records(repairable)
        except TidegateError as hindrance:
            for fault in repairable:
                self._add(_describe_fault(fault), "broken", f"They could not be replaced: {hindrance}")
            return survey
        for fault, place in zip(repairable, places, strict=True):
            self._add(f"{_describe_fault(fault)} They are lost; the other records are intact.", "lost", place)
        return survey_log(self._data.store, self._data.blobs, self._name)

    def _save_remains(self, fault: RecordFault) -> str:
        """Copy what is left of damaged records to `damaged/`, and say where it is."""
        rows = [fault.raw] if fault.raw else []
        if not rows and isinstance(self._data.store, SqliteStore):
            rows = read_raw_rows(self._data.store.path, self._name, fault.first, fault.last)
        if fault.blob_hash:
            copy_blob_to_damaged(self._data, fault.blob_hash)
        names = []
        for number, row in enumerate(rows):
            place = files.free_damaged_path(self._data, f"records-{self._key}-{fault.first}-{fault.last}.{number}")
            write_atomically(place, row)
            names.append(f"{files.DAMAGED_FOLDER}/{place.name}")
        return f"What was left of them is in {', '.join(names[:3])}." if names else "Nothing of them was left."

    def _replace_records(self, faults: list[RecordFault]) -> None:
        """Replace damaged records by placeholders. Their times are taken from the trace, if it has them."""
        store = self._data.store
        if not isinstance(store, RewritableStore):
            raise BadInput("This store cannot replace records.", "Export what is whole, and import it elsewhere.")
        times = {line.seq: line.time for line in read_trace(self._data.trace_path(self._name))}
        now = self._data.clock()
        self._data.remove_snapshot(self._name)
        store.rewrite(
            self._name,
            {
                seq: encode_lost_record(seq, times.get(seq, now), fault)
                for fault in faults
                for seq in range(fault.first, fault.last + 1)
            },
        )

    def _check_claims(self, survey: LogSurvey) -> None:
        """Check that all blobs of the log are claimed. Superfluous claims of an intact log are removed."""
        blobs = self._data.blobs
        if blobs is None:
            return
        try:
            claimed = blobs.claimed_by(self._name)
        except DamagedData as damage:
            if self._repair and not survey.faults:
                blobs.set_claims(self._name, survey.blob_hashes)
            self._add_mended(damage.args[0])
            return
        absent = survey.blob_hashes - claimed
        if absent:
            if self._repair:
                blobs.set_claims(self._name, survey.blob_hashes | claimed)
            self._add_mended(f"{len(absent)} large records were not claimed, and could have been removed.")
        elif claimed > survey.blob_hashes and self._repair and not survey.faults:
            blobs.set_claims(self._name, survey.blob_hashes)

    def _check_values(self, log: KeptLog) -> None:
        """Find impossible times and numbers. They do no harm, since they are ignored, but they are displayed."""
        problems = impossible_values(log)
        if not problems:
            return
        first = next(iter(problems))
        which = (
            f"{format_count(len(problems), 'record')} with impossible values; record {first}: {problems[first].why}."
        )
        store = self._data.store
        if not (self._repair and isinstance(store, RewritableStore)):
            self._add(which, "broken", "With --repair they are corrected: counted again, at the time before.")
            return
        self._data.remove_snapshot(self._name)
        blobs = self._data.blobs
        store.rewrite(
            self._name,
            {seq: store_if_large(encode_event(wrong.right), self._name, blobs) for seq, wrong in problems.items()},
        )
        if os.path.lexists(self._data.trace_path(self._name)):
            trace = Trace(self._data.trace_path(self._name), self._name, self._data.mask)
            trace.rewrite(log)
        self._add(which, "mended")

    # --- meaning -------------------------------------------------------------------------------------------

    def _check_events(self, log: KeptLog) -> None:
        judged = check_log(log)
        if judged.view is None:
            self._add(f"Event {judged.failed_seq} does not follow from those before it.", "broken", _FORK_REMEDY)
            return
        lost_count = sum(is_note(event.payload, RecordsLost) for event in log.read())
        state = f"{lost_count:,} of them lost earlier, the others whole" if lost_count else "all whole"
        self._add(f"{log.head:,} records, {state}.", "fine")
        if judged.unlawful_seqs:
            which = ", ".join(map(str, judged.unlawful_seqs[:5]))
            self._add(
                f"{format_count(len(judged.unlawful_seqs), 'edit')} at {which} not lawful for the view then.",
                "fine",
                "The view is repaired before each request.",
            )
        for fault in islice(find_request_faults(judged.view), 3):
            self._add(f"Its next request would be refused: {fault}", "broken", _FORK_REMEDY)

    def _check_snapshot(self, log: KeptLog) -> None:
        path = self._data.root / "views" / self._key
        if not os.path.lexists(path) or (files.is_regular_file(path) and self._snapshot_fits(log)):
            return
        if self._repair:
            if files.is_regular_file(path):
                self._data.snapshots.remove(self._key)
            else:
                files.move_to_damaged(self._data, path, "snapshot")
        self._add_mended("Its snapshot does not fit its log.", "It is not believed, and is removed with --repair.")

    def _snapshot_fits(self, log: KeptLog) -> bool:
        meter_name = self._data.snapshots.read_meter(self._key)
        view = None if meter_name is None else self._data.snapshots.load(self._key, log, meter_name)
        if view is None:
            return False
        meter = make_policy_meter(meter_name) if meter_name else None
        folded = fold_log(lambda: islice(log.read(), view.head), meter)
        return freeze_view(view) == freeze_view(folded) or _freeze_without_counts(view) == _freeze_without_counts(
            folded
        )

    def _check_trace(self, log: KeptLog) -> None:
        path = self._data.trace_path(self._name)
        if not os.path.lexists(path):
            return
        seq = _find_traced_seq(path)
        if seq == log.head:
            return
        is_behind = 0 <= seq < log.head  # a process was killed between its log and its trace
        if is_behind and not self._repair:
            if not self._data.locks.is_in_use(self._name):  # a gateway writes the trace later
                self._add("Its trace is behind its log.", "unfinished", COMPLETED_LATER)
            return
        if self._repair:
            if not files.is_regular_file(path):
                files.move_to_damaged(self._data, path, "trace")
            trace = Trace(path, self._name, self._data.mask)
            trace.append_missing(log) if is_behind else trace.rewrite(log)
        self._add_mended("Its trace does not tell all of its log, or is damaged.")


def _freeze_without_counts(view: LogView) -> bytes:
    """A view without the values that depend on the token counter: a session recounts them for its own model."""
    view.recount(TokenEstimator(), thinking=False, since=0)
    view.usage = None
    view.tokens_since_report = view.metered_since_report = 0
    return freeze_view(view)


def _find_traced_seq(path: Path) -> int:
    """The seq up to which a trace is complete and in order; -1 if it is damaged."""
    last = 0
    if not files.is_regular_file(path):
        return -1
    with path.open("rb") as file:
        for data in file:
            if not data.endswith(b"\n"):  # the process was killed while it wrote this line
                return last
            line = decode_trace_line(data)
            if line is None or line.seq not in (last, last + 1):
                return -1
            last = line.seq
    return last


_FORK_REMEDY = "Fork it before that, or forget what is in the way."


def _describe_fault(fault: RecordFault) -> str:
    many = f"Records {fault.first} to {fault.last} are" if fault.last > fault.first else f"Record {fault.first} is"
    return f"{many} not what was written: {fault.reason}"


# --- data without a session ------------------------------------------------------------------------------------------
# Files, traces, snapshots and claims without a log, and unused blobs. A removal deletes all of these, or is finished
# later. So if something is left without a removal, the log itself may have been lost: nothing is deleted then but
# what could be rebuilt from a log.


def check_orphaned_files(data: FolderContents, unfinished: Set[str], repair: bool) -> Iterator[Finding]:
    """Find files of sessions that no longer exist. Only run if the list of sessions is reliable.

    `unfinished` are sessions that a fork, an import or a removal has yet to make or to remove.
    """
    root, keys = data.root, _session_keys(data) | set(map(session_file_key, unfinished))
    orphans: list[tuple[str, str, Path]] = []
    for path in _entries(root / "sessions"):
        orphans += [("files", path.name, path)] if _is_folder(path) else []
    for path in _entries(root / "traces"):
        ours = path.suffix == ".jsonl" and decode_trace_line(_read_start(path).partition(b"\n")[0]) is not None
        orphans += [("trace", path.stem, path)] if ours else []
    for path in _entries(root / "views"):
        orphans += [("snapshot", path.name, path)] if _read_start(path).startswith(b"tidegate view") else []
    orphans += [("recall index", path.name, path) for path in _entries(root / "recall") if is_recall_file(path)]
    # Any file among the claims counts: while one of them cannot be read, no blob is ever deleted.
    orphans += [("claims", path.name, path) for path in _entries(root / "blobs" / "claims")]
    for what, key, path in orphans:
        if key not in keys:
            yield from _handle_orphan(data, path, key, what, repair)


def _session_keys(data: FolderContents) -> set[str]:
    return {session_file_key(info.name) for info in data.store.sessions()}


def _handle_orphan(data: FolderContents, path: Path, key: str, what: str, repair: bool) -> Iterator[Finding]:
    """Handle one orphan. The sessions are listed again under its lock: a new session has files before it has a log."""
    description = f"Data of a session that no longer exists: {what} ({path.name})."
    with data.locks.exclusive_key(key) as acquired:
        if not acquired or key in _session_keys(data):
            return
        if not repair:
            yield Finding("", description, "broken", "With --repair it is moved to damaged/.")
            return
        try:
            yield Finding("", description, "mended", _remove_or_move(data, path, key, what))
        except (OSError, TidegateError) as hindrance:
            yield Finding("", description, "broken", str(hindrance))


def _remove_or_move(data: FolderContents, path: Path, key: str, what: str) -> str:
    if what in ("snapshot", "recall index"):
        path.unlink()
        return "It is removed."
    if what == "claims":
        _save_blobs(data, key)
    return f"It is now {move_to_damaged(data, path, what)}; remove that if you do not miss it."


def _save_blobs(data: FolderContents, key: str) -> None:
    """Copy the blobs that only this session claims: without its claims they would be deleted."""
    claims = BlobClaims(data.root / "blobs" / "claims")
    others = _claimed_blobs(claims, *(other for other in claims.session_keys() if other != key))
    for sha in _claimed_blobs(claims, key) - others:
        copy_blob_to_damaged(data, sha)


def _claimed_blobs(claims: BlobClaims, *keys: str) -> set[str]:
    return {sha for key in keys if is_regular_file(claims.folder / key) for sha in claims.read(key).sizes}


def copy_blob_to_damaged(data: FolderContents, sha: str) -> None:
    path = data.root / "blobs" / sha[:2] / sha
    place = data.root / DAMAGED_FOLDER / f"blob-{sha}"
    if is_regular_file(path) and not place.exists():
        make_folder(place.parent)
        os.link(path, place)


def _entries(folder: Path) -> list[Path]:
    """The entries of a folder, without locks and unfinished files."""
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _read_start(path: Path, size: int = 65_536) -> bytes:
    """The first bytes of a regular file; empty if it is none or cannot be read."""
    if not is_regular_file(path):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def check_unclaimed_blobs(data: FolderContents, blob_hashes: set[str], repair: bool) -> Iterator[Finding]:
    """Find blobs that no session claims or needs. They are deleted only if all claims can be read."""
    if data.blobs is None or not data.blobs.folder.is_dir():
        return
    claims = BlobClaims(data.blobs.folder / "claims")
    blob_hashes = blob_hashes | _claimed_blobs(claims, *claims.session_keys())
    shelves = [path for path in _entries(data.blobs.folder) if len(path.name) == 2 and _is_folder(path)]
    idle = [
        path for shelf in shelves for path in _entries(shelf) if len(path.name) == 64 and path.name not in blob_hashes
    ]
    if not idle:
        return
    what = f"{len(idle)} large records are needed by no session."
    if not repair:
        yield Finding("", what, "broken", "They are removed with --repair.")
        return
    try:
        collection = data.blobs.collect()
    except TidegateError as hindrance:
        yield Finding("", what, "broken", str(hindrance))
    else:
        yield Finding(
            "", what, "mended", f"Removed: {format_count(collection.count, 'file')} with {collection.size:,} bytes."
        )
