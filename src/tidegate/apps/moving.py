"""`tidegate export` and `doctor`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tidegate.apps.choices import FAILED, OK
from tidegate.apps.place import data_folder, opened
from tidegate.apps.sessions import known, size
from tidegate.apps.terminal import print_json
from tidegate.core.terminal_text import clean_line
from tidegate.disk.folder import key_of
from tidegate.keep.doctor import examine
from tidegate.keep.finding import Finding
from tidegate.keep.portable import export
from tidegate.keep.rescue import needs_rescue, rescue


def export_command(options: argparse.Namespace) -> int:
    with opened(options) as data:
        known(data, options.session)
        path = Path(options.file or f"{key_of(options.session)}.tidegate")
        done = export(data, options.session, path)
    masked = f"; {done.masked} secrets masked" if done.masked else ""
    print(f"{clean_line(str(path))}: {done.events:,} records, {done.files} files, {size(path.stat().st_size)}{masked}")
    return OK


def doctor_command(options: argparse.Namespace) -> int:
    findings: list[Finding] = []
    for finding in _examined(options):
        if not options.json:
            print(finding)
            sys.stdout.flush()
        findings.append(finding)
    if options.json:
        print_json(msgspec.json.encode(findings))
    return FAILED if any(finding.severity in ("broken", "lost") for finding in findings) else OK


def _examined(options: argparse.Namespace) -> Iterator[Finding]:
    """A file that SQLite can no longer find its way in must be made anew before anything can be opened."""
    folder = data_folder(options)
    if options.repair and needs_rescue(folder):
        yield from rescue(folder)
    with opened(options) as data:
        yield from examine(data, repair=options.repair)
