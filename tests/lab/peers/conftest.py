"""The peers are in bench/, which the source distribution leaves out."""

from tidegate.lab.peer_registry import CHECKOUT

collect_ignore_glob = [] if (CHECKOUT / "bench").is_dir() else ["test_*.py"]
