"""Private files that are written atomically and cannot leave their folder. Store, memory and session use them."""
