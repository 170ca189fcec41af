"""Pure functions from data frames to data frames: what batch and stream have in common."""
