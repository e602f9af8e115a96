"""Writes those items of a DPR training file whose questions are in others too, and the others' items of these questions, both in
the order of the first: gold and distant positives of the same questions."""

import argparse
import gzip
import json
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("files", nargs="+", type=Path)
parser.add_argument("--most", type=int, required=True, help="questions to keep at most")
parser.add_argument("--out", nargs=2, type=Path, required=True)
arguments = parser.parse_args()


def read(paths: list[Path]) -> dict[str, dict]:
    """Items by question; of several items of one question, the first."""
    items: dict[str, dict] = {}
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as text:
            for item in json.load(text):
                items.setdefault(item["question"], item)
    return items


one, other = read(arguments.files[:1]), read(arguments.files[1:])
questions = [question for question in one if question in other and other[question]["hard_negative_ctxs"]]
questions = questions[: arguments.most]
for items, path in zip((one, other), arguments.out):
    part = path.with_suffix(".part")
    with gzip.open(part, "wt", encoding="utf-8") as out:
        json.dump([items[question] for question in questions], out)
    part.replace(path)
print(f"{len(questions)} questions are in both")
