"""What a session says about itself: decisions, usage, costs."""
