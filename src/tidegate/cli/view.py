"""`tidegate view`: a session as one HTML file."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidegate.cli.options import Subparsers, add_command, add_data_options, format_examples, parse_positive_int
from tidegate.core.errors import BadInput, TidegateError
from tidegate.terminal.exit_codes import EXIT_OK

if TYPE_CHECKING:  # loaded when the command runs
    from tidegate.models.catalog import ModelInfo

_ABOUT = """\
Write one HTML file about a session, to be opened in any browser, with no network: how full the window was over time and
with what, the size before and after each compaction, and every request with its cost. Secrets are masked.
"""


def add_parser(subparsers: Subparsers) -> None:
    examples = format_examples("view", "build-fix", "build-fix --out build-fix.html --window 32000")
    parser = add_command(
        subparsers, "view", run, summary="write a session as an HTML page", description=_ABOUT, epilog=examples
    )
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("--out", default="", metavar="FILE", help="where to write it (default: SESSION.html)")
    parser.add_argument(
        "--window",
        type=parse_positive_int,
        default=0,
        metavar="N",
        help="the window, if neither the log nor the catalog has it",
    )
    add_data_options(parser)


def run(options: argparse.Namespace) -> int:
    from pathlib import Path

    from tidegate.cli.data_location import open_data_folder, open_existing_log
    from tidegate.core.text.plural import format_byte_size
    from tidegate.core.text.secrets import SecretMask
    from tidegate.core.text.terminal_text import clean_line
    from tidegate.disk.atomic_files import write_atomically
    from tidegate.disk.folder import session_file_key
    from tidegate.web.session_page import render_session_page

    path = Path(options.out or f"{session_file_key(options.session)}.html")
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"{path} cannot be written.", "Name a file in an existing folder with --out.")
    config = read_view_config()
    mask = SecretMask(config.secrets)
    with open_data_folder(options) as data:
        log = open_existing_log(data, options.session)
        page = render_session_page(options.session, log, mask, window=options.window, model_overrides=config.prices)
    write_atomically(path, page.html.encode(), durable=False)
    print(f"{clean_line(str(path))}: {format_byte_size(path.stat().st_size)}")
    for line in page.omissions:
        print(f"  {clean_line(line)}")
    return EXIT_OK


class ViewConfig(NamedTuple):
    """The part of the user's configuration that the page needs: prices, and values to mask."""

    prices: "Mapping[str, ModelInfo] | None"
    secrets: list[str]


def read_view_config() -> ViewConfig:
    """Read the configuration. If it is faulty, say so and use the catalog's prices: the session can still be shown."""
    import os
    from pathlib import Path

    from tidegate.agent.config.files import locate_config_files
    from tidegate.agent.config.launch import LaunchOptions
    from tidegate.agent.provider_connection import build_model_overrides
    from tidegate.cli.launch import collect_secrets
    from tidegate.core.text.secrets import keys_of
    from tidegate.terminal.output import print_error

    try:
        config = LaunchOptions(locate_config_files(Path.cwd(), os.environ), os.environ).load_config().config
        return ViewConfig(build_model_overrides(config), collect_secrets(config))
    except TidegateError as bad:
        print_error(f"the configuration is ignored: {bad.args[0]}")
        return ViewConfig(None, keys_of(os.environ))
