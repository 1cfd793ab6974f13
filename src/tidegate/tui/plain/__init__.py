"""`tidegate chat` line by line, for pipes and simple terminals."""
