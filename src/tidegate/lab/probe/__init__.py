"""Questions about recorded sessions, asked of a model under the view of each policy."""
