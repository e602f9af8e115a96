"""Joins DPR training files and holds some questions out: all.json.gz, some.json.gz (the first N), dev.json.gz.

A passage's questions are held out together, and no question is on both sides. Items without a hard negative are left out.
"""

import argparse
import gzip
import json
import random
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("files", nargs="+")
parser.add_argument("--dev", type=int, default=400, help="questions to hold out, at least")
parser.add_argument("--some", type=int, default=1000, help="questions of the smaller file")
parser.add_argument("--out", type=Path, required=True)
arguments = parser.parse_args()

random.seed(7)
by_passage: dict[str, list] = {}
for file in arguments.files:
    with gzip.open(file, "rt", encoding="utf-8") as text:
        for item in json.load(text):
            by_passage.setdefault(item["positive_ctxs"][0]["text"], []).append(item)
passages = sorted(by_passage)
random.shuffle(passages)
dev, held_out = [], 0
while len(dev) < arguments.dev:
    dev += by_passage[passages[held_out]]
    held_out += 1
train = [item for passage in passages[held_out:] for item in by_passage[passage]]
random.shuffle(train)
asked = {item["question"] for item in dev}
train = [item for item in train if item["question"] not in asked and item["hard_negative_ctxs"]]
for name, items in (("dev", dev), ("all", train), ("some", train[: arguments.some])):
    with gzip.open(arguments.out / f"{name}.json.gz", "wt", encoding="utf-8") as out:
        json.dump(items, out)
    print(f"{name}: {len(items)} questions")
