"""The report: one HTML page about the lake. Making it needs neither the network nor Spark."""
