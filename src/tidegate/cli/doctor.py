"""`tidegate export` and `doctor`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidegate.cli.data_location import locate_data_folder, open_data_folder
from tidegate.cli.sessions import format_byte_size, open_existing_log
from tidegate.core.text.terminal_text import clean_line
from tidegate.datafolder.archive.transfer import export_session
from tidegate.datafolder.doctor.database_rescue import needs_rescue, rescue_database
from tidegate.datafolder.doctor.examination import examine_folder
from tidegate.datafolder.doctor.finding import Finding
from tidegate.disk.folder import session_file_key
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.terminal.output import print_json


def export_command(options: argparse.Namespace) -> int:
    with open_data_folder(options) as data:
        open_existing_log(data, options.session)
        path = Path(options.file or f"{session_file_key(options.session)}.tidegate")
        done = export_session(data, options.session, path)
    masked = f"; {done.masked_count} secrets masked" if done.masked_count else ""
    size = format_byte_size(path.stat().st_size)
    print(f"{clean_line(str(path))}: {done.event_count:,} records, {done.file_count} files, {size}{masked}")
    return EXIT_OK


def doctor_command(options: argparse.Namespace) -> int:
    findings: list[Finding] = []
    for finding in _examine(options):
        if not options.json:
            print(finding)
            sys.stdout.flush()
        findings.append(finding)
    if options.json:
        print_json(msgspec.json.encode(findings))
    return EXIT_FAILED if any(finding.severity in ("broken", "lost") for finding in findings) else EXIT_OK


def _examine(options: argparse.Namespace) -> Iterator[Finding]:
    """A file that SQLite can no longer find its way in must be made anew before anything can be opened."""
    folder = locate_data_folder(options)
    if options.repair and needs_rescue(folder):
        yield from rescue_database(folder)
    with open_data_folder(options) as data:
        yield from examine_folder(data, repair=options.repair)
