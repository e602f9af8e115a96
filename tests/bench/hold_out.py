"""Joins DPR training files and holds some questions out: all.json.gz, some.json.gz (the first N), dev.json.gz; and
first-N.json.gz for each N of --first.

An article's questions are held out together, those of all its passages, and no question is on both sides: neighbours of a
held-out passage tell of the same things. Passages of one title are of one article; one without a title is alone. Items without
a hard negative are left out of training.
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
parser.add_argument("--first", type=int, nargs="*", default=[], help="sizes of further files; each holds those before it")
parser.add_argument("--out", type=Path, required=True)
arguments = parser.parse_args()

random.seed(7)
by_article: dict[str, list] = {}
for file in arguments.files:
    with gzip.open(file, "rt", encoding="utf-8") as text:
        for item in json.load(text):
            positive = item["positive_ctxs"][0]
            by_article.setdefault(positive["title"] or positive["text"], []).append(item)
articles = sorted(by_article)
random.shuffle(articles)
dev, held_out = [], 0
while len(dev) < arguments.dev:
    dev += by_article[articles[held_out]]
    held_out += 1
train = [item for article in articles[held_out:] for item in by_article[article]]
random.shuffle(train)
asked = {item["question"] for item in dev}
train = [item for item in train if item["question"] not in asked and item["hard_negative_ctxs"]]
if arguments.first and max(arguments.first) > len(train):
    parser.error(f"--first {max(arguments.first)} asks for more than the {len(train)} questions that are left to train on")
files = [("dev", dev), ("some", train[: arguments.some])]
files += [(f"first-{size}", train[:size]) for size in arguments.first]
# The last one tells that all are there.
for name, items in files + [("all", train)]:
    part, whole = (arguments.out / f"{name}{end}" for end in (".part", ".json.gz"))
    with gzip.open(part, "wt", encoding="utf-8") as out:
        json.dump(items, out)
    part.replace(whole)
    print(f"{name}: {len(items)} questions")
