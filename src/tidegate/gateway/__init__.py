"""The gateway between a client and its provider: it keeps the conversation in a log and forwards a view that fits."""
