"""The agent: a loop over a session, a provider and tools."""
