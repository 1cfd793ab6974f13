"""The page of the gateway: its sessions as they run, read from their logs a few events at a time."""
