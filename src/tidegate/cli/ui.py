"""`tidegate ui`: the page of the gateway that is running."""

import argparse
import os
import sys

from tidegate.cli.options import Subparsers, add_command, add_data_folder_option, format_examples
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = """\
Print a link to the page of the gateway that was started last with this data folder, and open it in your browser. The
page shows the sessions while they run: what fills the window, what left it and why. The link works once; the browser
then has a cookie. Other users of this machine cannot open the page.
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "ui",
        run,
        summary="open the page of the running gateway",
        description=_ABOUT,
        epilog=format_examples("ui", "", "--print"),
    )
    add_data_folder_option(parser)
    parser.add_argument("--print", action="store_true", help="only print the link")


def run(options: argparse.Namespace) -> int:
    import time

    from tidegate.cli.data_location import locate_data_folder
    from tidegate.core.errors import BadInput
    from tidegate.gateway.running import list_running_gateways
    from tidegate.web.live.login import make_page_link

    folder = locate_data_folder(options)
    running = list_running_gateways(folder)
    if not running:
        raise BadInput(
            f"No gateway is running with the data folder {folder}.",
            "Start one with `tidegate wrap CLIENT` or `tidegate serve`, or name its data folder with --data.",
        )
    newest = running[0]
    if newest.page_token:
        link = make_page_link(newest.address, newest.page_token, time.time())
    else:
        link = f"{newest.address}/ui"
        sys.stderr.write("tidegate: this gateway has tokens; log in with one of them.\n")
    print(link, flush=True)
    for other in running[1:]:
        what = f"{other.client or 'serve'} in {other.workspace}" if other.workspace else other.client or "serve"
        sys.stderr.write(f"tidegate: another gateway runs at {other.address} ({what})\n")
    if not options.print and _has_browser():
        import webbrowser

        webbrowser.open(link)
    return EXIT_OK


def _has_browser() -> bool:
    """Whether there is a screen to open a window on. A browser inside the terminal would only be in the way."""
    if not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
