"""What is known about models: how they count, how much they hold."""
