"""Joins SQuAD files and keeps those of their questions that a DPR training file asks, with their paragraphs."""

import argparse
import gzip
import json
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("training", type=Path, help="DPR training json, gzip-compressed")
parser.add_argument("--squad", nargs="+", type=Path, required=True)
parser.add_argument("--out", type=Path, required=True)
arguments = parser.parse_args()

with gzip.open(arguments.training, "rt", encoding="utf-8") as text:
    asked = {item["question"] for item in json.load(text)}
articles = []
for squad in arguments.squad:
    for article in json.loads(squad.read_text(encoding="utf-8"))["data"]:
        paragraphs = []
        for paragraph in article["paragraphs"]:
            # `dpr` trims questions.
            kept = [question for question in paragraph["qas"] if question["question"].strip() in asked]
            if kept:
                paragraphs.append({"context": paragraph["context"], "qas": kept})
        if paragraphs:
            articles.append({"title": article["title"], "paragraphs": paragraphs})
part = arguments.out.with_suffix(".part")
part.write_text(json.dumps({"version": "1.1", "data": articles}), encoding="utf-8")
part.replace(arguments.out)
print(f"{sum(len(paragraph['qas']) for article in articles for paragraph in article['paragraphs'])} questions")
