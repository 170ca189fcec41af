"""All reads and writes of the pipeline."""
