"""The model that runs in this process, on the CPU."""
