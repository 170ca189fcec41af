"""Parts of regular expressions that Java matches quickly.

Each character of a class is named by itself: Java looks these up in a table. For ranges, and for what a class excludes,
it asks one function after the other about each character.
"""

from __future__ import annotations

import re
from typing import Final

_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
ASCII: Final = f"[{re.escape(_PRINTABLE)}]"
"""A printable ASCII character."""
PLAIN: Final = ASCII.replace('"', "").replace(re.escape("\\"), "")
"""One that JSON's texts have as it is: no quote and no backslash."""
