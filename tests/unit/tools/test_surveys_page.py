"""docs/surveys.md is made from the columns of the files that surveys are kept in."""

from __future__ import annotations

import re

from lethe.protocol.survey_records import FILES, MANIFEST
from tools.surveys_page import page


def test_every_file_and_column_is_there_with_what_it_means() -> None:
    text = page()
    for file in FILES:
        section = text.split(f"## {file.name}\n")[1].split("\n## ")[0]
        for column in file.columns:
            where = section if file is MANIFEST or column not in MANIFEST.columns else text
            assert re.search(rf"^\* `{column.name}` \(.+?\): {re.escape(column.meaning)}$", where, re.MULTILINE)
