"""The wire dialects: parse what people hand in, render what is sent, and check it apart from the renderer."""
