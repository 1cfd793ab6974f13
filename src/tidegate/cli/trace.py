"""`tidegate trace`: the trace of a session as JSON lines, or its usage added up."""

import argparse
import sys

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = "Print the trace of a session as JSON lines: model calls, tool calls, compactions, errors. --usage adds it up."


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("trace", "build-fix", "build-fix --usage")
    parser = add_command(
        subparsers, "trace", run, summary="print what happened in a session", description=_ABOUT, epilog=examples
    )
    add_data_options(parser)
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("--usage", action="store_true", help="tokens by model, added up")


def run(options: argparse.Namespace) -> int:
    """Print the trace. Lines that its file does not have yet are first appended to it. Without one, none is made."""
    import tempfile
    from pathlib import Path

    import msgspec

    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.datafolder.trace.writer import Trace, read_trace, sum_usage_by_model
    from tidegate.terminal.output import print_json

    with open_data_folder(options) as data, tempfile.TemporaryDirectory() as folder:
        log = open_existing_log(data, options.session)
        path = data.trace_path(options.session)
        path = path if path.exists() else Path(folder, "trace.jsonl")
        Trace(path, options.session, data.mask).append_missing(log)
        lines = read_trace(path)
        if options.usage:
            print_json(msgspec.json.encode(sum_usage_by_model(lines)))
            return EXIT_OK
        for line in lines:
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    return EXIT_OK
