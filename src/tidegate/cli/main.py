"""The command `tidegate`. Each command loads what it needs when it runs, so that `--version` is instant.

An error is printed as one line that says what happened and one that says what to do. The status is 1 when something
could not be read or proved, 2 for wrong usage, 130 after Ctrl-C. A traceback is printed only if TIDEGATE_DEBUG is set.
"""

import gc
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.util import find_spec

from tidegate.cli.extras import describe_missing_package
from tidegate.core.errors import BadInput, BadPolicy, TidegateError
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from tidegate.terminal.output import guard_streams, hide_engine_warnings, print_error

_DEBUG_VARIABLE = "TIDEGATE_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status. Nothing is raised."""
    if argv is None:  # a process of its own: loading modules makes many objects and no garbage
        gc.set_threshold(10_000)
        sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # its own command loads rich, click, pygments
    with guard_streams(), warnings.catch_warnings():
        hide_engine_warnings()
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    if find_spec("fcntl") is None:
        return _report_error("tidegate runs on Linux and macOS.", "On Windows, run it in WSL: https://aka.ms/wsl")
    from tidegate.cli.parser import make_parser  # not at the top: on Windows it cannot be loaded

    try:
        words = sys.argv[1:] if argv is None else argv
        options = make_parser(words).parse_command_line(words)
        status: int = options.run_command(options)
        sys.stdout.flush()
    except SystemExit as leave:  # argparse has printed its message
        return leave.code if isinstance(leave.code, int) else EXIT_FAILED
    except KeyboardInterrupt:
        return _report_error("stopped", status=EXIT_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has closed it, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except (BadInput, BadPolicy) as error:
        return _report_error(f"error: {error.args[0]}", error.remedy, EXIT_USAGE)
    except TidegateError as error:
        return _report_error(f"error: {error.args[0]}", error.remedy, EXIT_FAILED)
    except OSError as error:
        what = f"error: {error.filename or 'reading or writing'}: {error.strerror or error}"
        return _report_error(what, "Check the path, its permissions and the space left.", EXIT_FAILED)
    except ModuleNotFoundError as error:
        return _report_missing_package(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a sentence instead of a traceback
        return _report_defect(error)
    return status


def _report_missing_package(error: ModuleNotFoundError) -> int:
    missing = describe_missing_package(error.name or "")
    if missing is None:
        return _report_defect(error)
    return _report_error(f"error: {missing.args[0]}", missing.remedy, EXIT_USAGE)


def _report_defect(error: Exception) -> int:
    if os.environ.get(_DEBUG_VARIABLE):
        import traceback

        traceback.print_exc()
        return EXIT_FAILED
    remedy = f"This is a defect; {_DEBUG_VARIABLE}=1 shows where it happened. Please report it."
    return _report_error(f"internal error: {type(error).__name__}: {error}", remedy, EXIT_FAILED)


def _report_error(what: str, remedy: str = "", status: int = EXIT_FAILED) -> int:
    print_error(what, remedy)
    return status


if __name__ == "__main__":
    sys.exit(main())
