"""One live session: the class `Session`, and the parts it is made of."""
