"""A seeded, deterministic world in which the pure cores of controllers and agents meet every kind of trouble."""
