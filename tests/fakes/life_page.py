"""What must be true of the page about one deletion, whichever run it was written from."""

from __future__ import annotations

import json
import re

HEADINGS = ("In one picture", "Before", "Step by step", "The states meanwhile", "On the disks", "After")
STEPS = ("the mark", "every broker forgets the topic", "the replicas are deleted", "the znodes go")
_STEP = re.compile(r"^### \+(\d+\.\d) ms: (.+)$", re.MULTILINE)


def problems(text: str) -> list[str]:
    """What is wrong with it, in words; nothing where it is well-formed."""
    found = []
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    if tuple(headings) != HEADINGS:
        found.append(f"the sections are {headings}")
    steps = [(float(at), title) for at, title in _STEP.findall(text)]
    if [at for at, _ in steps] != sorted(at for at, _ in steps):
        found.append(f"the steps are not in their order: {steps}")
    titles = [title for _, title in steps]
    if [title for title in titles if title in STEPS] != list(STEPS):
        found.append(f"the steps that every deletion has are not all there, once: {titles}")
    if any("no words for" in title for title in titles):
        found.append("a step has no words")
    if text.count("```") % 2:
        found.append("a block is not closed")
    for block in re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        try:
            json.loads(block)
        except ValueError as error:
            found.append(f"a block is no JSON ({error}): {block[:80]}")
    if not re.search(r"^```mermaid\nsequenceDiagram\n", text, re.MULTILINE):
        found.append("there is no picture")
    if any(
        re.search("[;#]", drawing) for drawing in re.findall(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ):
        found.append("a line of the picture has a character with which Mermaid ends it")
    after = text.rpartition("## After")[2]
    if "orders" in after:
        found.append("something is left of the topic")
    if "-delete`" not in text:
        found.append("no directory was seen renamed")
    if re.search(r"/(tmp|home|root|work)/", text):
        found.append("it names a path of the machine that it was made on")
    return found
