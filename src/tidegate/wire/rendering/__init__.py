"""The parts of rendering that all dialects share: layout, identifiers, image limits, the request."""
