"""The gateway: any client by base URL. It keeps the conversation in a log and forwards a view that fits."""
