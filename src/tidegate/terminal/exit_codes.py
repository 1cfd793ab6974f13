"""The exit codes of the command `tidegate`: success, failure, wrong usage, stopped by Ctrl-C."""

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
