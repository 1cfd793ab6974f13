"""Search for the settings of a policy on recorded sessions."""
