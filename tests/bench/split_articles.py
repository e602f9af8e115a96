"""Splits a SQuAD file by article into train.json, dev.json and test.json.

Articles are shuffled by a seed and dealt out whole: train takes articles until it has its share of the questions, then dev
takes its own, and test takes the rest. Thus no paragraph, and no other paragraph of its article, is in two files. An article
keeps its number, by which `dpr` knows its paragraphs ("3-0" is the first of the fourth article): in the other two files an
article without title and paragraphs stands in its place.
"""

import argparse
import json
import random
from pathlib import Path


def count(article: dict) -> int:
    """The number of an article's questions."""
    return sum(len(paragraph["qas"]) for paragraph in article["paragraphs"])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("file", type=Path)
parser.add_argument("--train", type=float, default=0.42, help="share of the questions to train on")
parser.add_argument("--dev", type=float, default=0.08, help="share of the questions to tune on")
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--out", type=Path, required=True)
arguments = parser.parse_args()

squad = json.loads(arguments.file.read_text(encoding="utf-8"))
titles = [article["title"] for article in squad["data"]]
if len(set(titles)) < len(titles):
    raise SystemExit(f"{arguments.file}: two articles have one title; join their paragraphs first")
articles = sorted(squad["data"], key=lambda article: article["title"])
random.seed(arguments.seed)
random.shuffle(articles)
questions = sum(map(count, articles))
arguments.out.mkdir(parents=True, exist_ok=True)
for name, share in (("train", arguments.train), ("dev", arguments.dev), ("test", 1.0)):
    part: list[dict] = []
    while articles and sum(map(count, part)) < share * questions:
        part.append(articles.pop(0))
    own = {article["title"] for article in part}
    data = [a if a["title"] in own else {"title": "", "paragraphs": []} for a in squad["data"]]
    out = arguments.out / f"{name}.json"
    out.write_text(json.dumps({**squad, "data": data}, ensure_ascii=False), encoding="utf-8")
    paragraphs = sum(len(article["paragraphs"]) for article in part)
    print(f"{name}: {len(part)} articles, {paragraphs} paragraphs, {sum(map(count, part))} questions")
