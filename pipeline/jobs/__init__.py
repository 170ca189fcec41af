"""Jobs: what is read, computed and written, in which order."""
