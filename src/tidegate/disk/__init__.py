"""Private files that are written atomically and cannot leave their folder. Store, memory and session use them."""

from importlib.util import find_spec

if find_spec("fcntl") is None:
    raise ImportError("tidegate stores sessions on Linux and macOS. On Windows, use it in WSL (https://aka.ms/wsl).")
