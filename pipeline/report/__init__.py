"""The report: one HTML page over the lake, which needs no network and no Spark to be made.

Theory of operation. `read` takes small plain values (`values`) from the gold tables, and from silver what a timeline
needs; `page` turns values into text. Nothing else knows both. The tables are read with Arrow, straight from the lake's
Parquet directories: a Spark session takes ten seconds to begin, and what is read here is small or, where it is not (a
lake of a million deletions), is read batch by batch and kept as counts, percentiles and the few rows that a page can
show. `columns` says what that means for lakes on other file systems.

The page is a function of the lake: no clock, no random number, rows in an order of their own. So the same lake gives
the same bytes, whoever makes it. Every list has a limit, and the page says what it leaves out: it stays below some two
megabytes. Everything that comes from outside (names of topics, paths, reasons, lines) is escaped where it is put into
the page, by `markup`, which cannot be got around by forgetting; and the page forbids itself every script and every
style but its own.
"""
