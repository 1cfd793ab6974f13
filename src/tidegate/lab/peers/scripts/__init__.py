"""Scripts for the interpreters of the peers: standard library and the peer's library only, nothing of tidegate."""
