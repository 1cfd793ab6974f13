"""The ledger: facts, rules and names that outlive their messages."""
