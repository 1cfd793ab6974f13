"""`tidegate doctor`: check everything in the data folder, and repair it if asked."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.datafolder.doctor.finding import Finding

_ABOUT = """\
Check everything in the data folder, down to the hash of each record. It changes nothing without --repair. With the
address of the owner of PostgreSQL's tables, it migrates them and checks the sessions of all tenants.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("doctor", "", "--repair")
    parser = add_command(
        subparsers, "doctor", run, summary="check and repair the data folder", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("--repair", action="store_true", help="repair what can be repaired")
    parser.add_argument("--json", action="store_true", help="a list of findings instead of lines")


def run(options: argparse.Namespace) -> int:
    import msgspec

    from tidegate.terminal.output import print_json

    findings: list[Finding] = []
    for finding in _examine(options):
        if not options.json:
            print(finding)
            sys.stdout.flush()
        findings.append(finding)
    if options.json:
        print_json(msgspec.json.encode(findings))
    return EXIT_FAILED if any(finding.severity in ("broken", "lost") for finding in findings) else EXIT_OK


def _examine(options: argparse.Namespace) -> "Iterator[Finding]":
    """Yield the findings. A database that SQLite can no longer read is rescued before the folder is opened."""
    import msgspec

    from tidegate.cli.data_location import locate_data_folder, open_data_folder, open_tenant
    from tidegate.datafolder.doctor.database_rescue import needs_rescue, rescue_database
    from tidegate.datafolder.doctor.examination import examine_folder
    from tidegate.store.store import TenantStore

    folder = locate_data_folder(options)
    if options.repair and needs_rescue(folder):
        yield from rescue_database(folder)
    with open_data_folder(options) as data:
        yield from examine_folder(data, repair=options.repair)
        store = data.store
        for tenant in store.list_other_tenants() if isinstance(store, TenantStore) else []:
            with open_tenant(data, tenant) as other:
                for finding in examine_folder(other, repair=options.repair):
                    yield msgspec.structs.replace(finding, tenant=tenant)
