"""Writes tests/fixtures/sparse/golden.json.gz: BM25 by bm25s and TF-IDF by scikit-learn, for the Rust tests.

    python tests/python/sparse_reference.py SQUAD.json                      the fixture
    python tests/python/sparse_reference.py SQUAD.json --tsv P.tsv Q.tsv    bm25s over another corpus, as JSON: speed of
                                                                            all questions, accuracy of the first --limit

SQUAD.json is SQuAD v1.1 dev (web-demo/corpus holds it). The analysis is written here from its description: NFKC, runs
of letters, digits and marks in lower case, no possessive 's, Lucene's 33 stop words out, PyStemmer's `porter` for
words of three letters or more; titles and texts count alike. The fixture holds, for every 50th question, the best 20 rows and their scores.
Needs bm25s, PyStemmer, scikit-learn, regex, and numba for --tsv: bm25s is fastest with it.
"""

import ast
import argparse
import csv
import gzip
import json
import pathlib
import sys
import tempfile
import time
import unicodedata

import bm25s
import numpy
import regex
import Stemmer
from sklearn.feature_extraction.text import TfidfVectorizer

FIXTURE = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "sparse" / "golden.json.gz"
STOP = set(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
WORD = regex.compile(r"[\p{Alphabetic}\p{N}\p{M}]+")
stem = Stemmer.Stemmer("porter").stemWord
stems = {}


def terms(text):
    text = unicodedata.normalize("NFKC", text)
    found = []
    for match in WORD.finditer(text):
        word = match.group().lower()
        before = text[match.start() - 1] if match.start() else ""
        if len(match.group().encode()) > 255 or word in STOP or (word == "s" and before in ("'", "\u2019") and before):
            continue
        if word not in stems:
            stems[word] = stem(word) if len(word) > 2 else word
        found.append(stems[word])
    return found


def opened(path):
    raw = pathlib.Path(path).read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()


def best(scores, k):
    """Rows by score, ties by row, only those above 0."""
    rows = numpy.lexsort((numpy.arange(len(scores)), -scores))[:k]
    return [(int(row), float(scores[row])) for row in rows if scores[row] > 0]


def fixture(squad):
    data = json.loads(opened(squad))["data"]
    passages, questions = [], []
    for article in data:
        title = article["title"].replace("_", " ")
        for paragraph in article["paragraphs"]:
            passages.append(title + " " + paragraph["context"])
            questions += [qa["question"].strip().replace("\u2019", "'") for qa in paragraph["qas"]]
    questions = questions[::50]
    analysed = [terms(passage) for passage in passages]
    bm25 = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    bm25.index(analysed, show_progress=False)
    vectorizer = TfidfVectorizer(analyzer=terms)
    matrix = vectorizer.fit_transform(passages)
    rows = []
    for question in questions:
        known = [term for term in terms(question) if term in bm25.vocab_dict]
        cosine = (matrix @ vectorizer.transform([question]).T).toarray()[:, 0]
        scores = bm25.get_scores(known) if known else numpy.zeros(len(passages))
        rows.append({"question": question, "terms": terms(question), "bm25": best(scores, 20), "tfidf": best(cosine, 20)})
    versions = {"bm25s": bm25s.__version__, "k1": 0.9, "b": 0.4}
    FIXTURE.parent.mkdir(exist_ok=True)
    text = json.dumps({"about": "Written by tests/python/sparse_reference.py; texts from SQuAD v1.1 dev, CC BY-SA 4.0.",
                       **versions, "questions": rows}, ensure_ascii=False)
    FIXTURE.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(rows)} questions, {len(passages)} passages, {FIXTURE.stat().st_size} bytes")


ANSWER = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])")


def answer_tokens(text):
    return [match.group().lower() for match in ANSWER.finditer(unicodedata.normalize("NFD", text))]


def rows_of(file):
    """Columns of a table; quotes count only where the whole column is quoted, as the released files have it."""
    for line in opened(file).split("\n"):
        if line.strip():
            yield next(csv.reader([line], delimiter="\t")) if '\t"' in line or line.startswith('"') else line.split("\t")


def accuracy(passages_file, questions_file, limit):
    csv.field_size_limit(sys.maxsize)
    header, *rows = rows_of(passages_file)
    text_at, title_at = header.index("text"), header.index("title")
    passages = [row[text_at] for row in rows]
    started = time.time()
    bm25 = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    bm25.index([terms(row[title_at] + " " + row[text_at]) for row in rows], show_progress=False)
    build = time.time() - started
    with tempfile.TemporaryDirectory() as folder:
        bm25.save(folder)
        size = sum(file.stat().st_size for file in pathlib.Path(folder).iterdir())
    asked = list(rows_of(questions_file))
    started = time.time()
    known = [[term for term in terms(row[0].replace("\u2019", "'")) if term in bm25.vocab_dict] for row in asked]
    analysis = time.time() - started
    for _ in range(2):
        started = time.time()
        found, _ = bm25.retrieve(known, k=100, n_threads=1, show_progress=False)
        seconds = time.time() - started
    cache, ranks = {}, []
    for (_, answers), ids in list(zip(asked, found))[:limit]:
        wanted = [" " + " ".join(answer_tokens(answer)) + " " for answer in ast.literal_eval(answers)]
        rank = None
        for position, row in enumerate(ids):
            if row not in cache:
                cache[row] = " " + " ".join(answer_tokens(passages[row])) + " "
            if any(answer in cache[row] for answer in wanted):
                rank = position
                break
        ranks.append(rank)
    print(json.dumps({
        "passages": len(rows),
        "questions": len(asked),
        "build_seconds": [build],
        "questions_per_second": [len(asked) / (seconds + analysis)],
        "questions_per_second_without_analysis": len(asked) / seconds,
        "bytes": size,
        "top_k": {k: sum(rank is not None and rank < k for rank in ranks) / len(ranks) for k in (1, 5, 20, 100)},
    }))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad")
    parser.add_argument("--tsv", nargs=2, metavar=("PASSAGES", "QUESTIONS"))
    parser.add_argument("--limit", type=int, default=2000)
    arguments = parser.parse_args()
    if arguments.tsv:
        accuracy(*arguments.tsv, arguments.limit)
    else:
        fixture(arguments.squad)
