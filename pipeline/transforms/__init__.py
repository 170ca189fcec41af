"""Pure functions from data frames to data frames, shared by batch and stream."""
