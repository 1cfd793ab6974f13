"""Recognition: what a call does and what a text is. The sweep, the ledger, the digest and the notes ask here."""
