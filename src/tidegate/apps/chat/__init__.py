"""The terminal app. What is shown is a fold of the log; the agent lives in a thread of its own (`backstage.py`)."""
