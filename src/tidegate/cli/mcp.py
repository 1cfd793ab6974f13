"""`tidegate mcp`: an MCP server over the stored sessions."""

import argparse

from tidegate.cli.extras import require_packages
from tidegate.cli.options import Subparsers, add_command, add_data_options, parse_port
from tidegate.terminal.exit_codes import EXIT_OK

_ABOUT = """\
Let an MCP client read the stored sessions: `recall` reads messages by id, range or words, `search` looks through all
sessions and notes, `notes` reads the notes, `status` lists the sessions. Sessions are resources, too. Nothing is
changed, unless --allow-writes adds the tool `write_note`. The data folder may be in use at the same time. With
`recall_earlier_sessions: true` in your own tidegate.yaml, `recall` with the session * searches the sessions of the
folder in which the server is started.
"""
_EPILOG = """\
Without --port it speaks over standard input and output, as clients start it. With --port it serves streamable HTTP at
http://127.0.0.1:PORT/mcp, for this machine only.

examples:
  tidegate mcp
  tidegate mcp --session build-fix
  tidegate mcp --port 8485
  claude --mcp-config '{"mcpServers": {"tidegate": {"command": "tidegate", "args": ["mcp"]}}}'
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "mcp", run, summary="let an MCP client read the stored sessions", description=_ABOUT, epilog=_EPILOG
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--session", default="", metavar="NAME", help="serve only this session")
    group.add_argument("--all", action="store_true", help="serve all sessions (the default)")
    parser.add_argument("--port", type=parse_port, default=None, metavar="N", help="serve HTTP on this port instead")
    parser.add_argument("--allow-writes", action="store_true", help="let the client write notes")
    add_data_options(parser)


def run(options: argparse.Namespace) -> int:
    require_packages("mcp")

    import os
    import sys
    from pathlib import Path

    from tidegate.agent.config.files import locate_config_files, may_recall_earlier_sessions
    from tidegate.cli.data_location import open_data_folder
    from tidegate.core.text.secrets import keys_of
    from tidegate.integrations.mcp_server import create_mcp_server, run_mcp_server

    files = locate_config_files(Path.cwd(), os.environ)
    project = Path.cwd() if may_recall_earlier_sessions(files, os.environ) else None
    with open_data_folder(options, create=True, secrets=keys_of(os.environ)) as data:
        server = create_mcp_server(data, options.session, allow_writes=options.allow_writes, project=project)
        if options.port is not None:
            print(f"tidegate: listening on http://127.0.0.1:{options.port}/mcp, data in {data.root}", file=sys.stderr)
        run_mcp_server(server, options.port)
    return EXIT_OK
