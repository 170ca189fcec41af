"""The only reads and writes of the pipeline."""
