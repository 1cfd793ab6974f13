"""`tidegate demo`: a guided tour without a key."""
