"""What tests ask of the board's page in a browser."""

from __future__ import annotations

COUNTS = """Object.fromEntries([...document.querySelectorAll('.column')].map(column =>
    [column.className.match(/c-(\\w+)/)[1], column.querySelector('.value').textContent]))"""
"""How many topics each column says that it has."""
EXPLAINED = "document.getElementById('explain').open && document.getElementById('explain-body').innerText"
"""What is said of a topic, or false."""
