"""Play recorded sessions through a policy."""
