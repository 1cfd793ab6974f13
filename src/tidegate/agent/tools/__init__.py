"""What the model may do: tools, how their arguments are read, who approves, and where they may reach."""
