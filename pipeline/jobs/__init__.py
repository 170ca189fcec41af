"""The order of things: what is read, made and written, and when."""
