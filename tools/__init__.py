"""Tools of the developers: generators of documentation pages and checks of the sources."""
