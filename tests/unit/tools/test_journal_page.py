from lethe.protocol.journal_schema import SCHEMAS
from tools.journal_page import page


def test_the_page_names_every_type_and_key() -> None:
    text = page()
    for record_type, schema in SCHEMAS.items():
        assert f"## lethe.{record_type.value}\n" in text
        for form in schema.forms:
            for key in form.keys:
                assert f"* `{key.name}` (" in text
