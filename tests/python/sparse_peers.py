"""Times PISA and bm25-turbo over a corpus, as JSON, where they are installed: optional peers of the bench of BM25.

    python tests/python/sparse_peers.py PASSAGES.tsv QUESTIONS.tsv

They get the terms of sparse_reference.py, one word each (t12), so that their own analysis changes nothing; one thread, top
100, k1 = 0.9, b = 0.4. `agree` is the mean share of the first 500 questions' best 100 that bm25s has too (ties at the end of
the list, and lengths that PISA rounds, take some). Packages: pyterrier-pisa, bm25-turbo; neither is part of the set-up.
"""

import csv
import json
import os
import sys
import tempfile
import time
import warnings

import bm25s
import numpy

import sparse_reference as reference

K = 100
COMPARED = 500


def timed(run, asked):
    """Of two passes the time on the processor of the second, which is that of the clock where nothing else runs."""
    for _ in range(2):
        started = time.process_time()
        found = run(asked)
        seconds = time.process_time() - started
    return found, len(asked) / seconds


def bm25_turbo(passages, asked):
    from bm25_turbo_python import BM25

    engine = BM25(method="lucene", k1=0.9, b=0.4)
    started = time.time()
    engine.index(passages)
    build = time.time() - started
    found, speed = timed(lambda asked: [engine.search_numpy(question, K)[0] for question in asked], asked)
    return build, speed, [[int(row) for row in rows] for rows in found[:COMPARED]]


def pisa(passages, asked):
    import pandas
    from pyterrier_pisa import PisaIndex

    best = None
    with tempfile.TemporaryDirectory() as folder:
        index = PisaIndex(folder + "/index", text_field="text", stemmer="none", stops="none", threads=1)
        started = time.time()
        index.index({"docno": str(row), "text": text} for row, text in enumerate(passages))
        build = time.time() - started
        frame = pandas.DataFrame({"qid": [str(at) for at in range(len(asked))], "query": asked})
        for algorithm in ("block_max_maxscore", "maxscore", "block_max_wand", "ranked_or"):
            search = index.bm25(k1=0.9, b=0.4, num_results=K, query_algorithm=algorithm)
            found, speed = timed(search.transform, frame)
            if best is None or speed > best[1]:
                first = found[found["qid"].astype(int) < COMPARED].groupby("qid")["docno"]
                rows = {int(qid): [int(row) for row in rows] for qid, rows in first}
                best = (build, speed, [rows.get(at, []) for at in range(COMPARED)], algorithm)
    return best


def main(passages_file, questions_file):
    warnings.filterwarnings("ignore")
    csv.field_size_limit(sys.maxsize)
    header, *rows = reference.rows_of(passages_file)
    text_at, title_at = header.index("text"), header.index("title")
    analysed = [reference.terms(row[title_at] + " " + row[text_at]) for row in rows]
    bm25 = bm25s.BM25(method="lucene", k1=0.9, b=0.4, backend="numba")
    bm25.index(analysed, show_progress=False)
    words = {}
    number = lambda term: words.setdefault(term, f"t{len(words)}")
    passages = [" ".join(map(number, terms)) for terms in analysed]
    known = [
        [term for term in reference.terms(row[0].replace("\u2019", "'")) if term in words]
        for row in reference.rows_of(questions_file)
    ]
    asked = [" ".join(map(number, terms)) for terms in known]
    expected, _ = bm25.retrieve(known[:COMPARED], k=K, n_threads=1, show_progress=False)
    _, speed = timed(lambda asked: bm25.retrieve(asked, k=K, n_threads=1, show_progress=False), known)
    report = {"bm25s": {"questions_per_second": [speed]}}
    del bm25, analysed
    for name, run in (("bm25-turbo", bm25_turbo), ("pisa", pisa)):
        try:
            build, speed, found, *algorithm = run(passages, asked)
        except ImportError:
            continue
        shares = [len(set(ours) & set(theirs)) / K for ours, theirs in zip(found, expected.tolist()) if len(ours) == K]
        report[name] = {
            "build_seconds": [build],
            "questions_per_second": [speed],
            "agree": float(numpy.mean(shares)),
            "algorithm": algorithm[0] if algorithm else "scores stored",
        }
    return json.dumps(report)


if __name__ == "__main__":
    # PISA tells on standard output what it does: that goes to standard error.
    out = os.dup(1)
    os.dup2(2, 1)
    report = main(*sys.argv[1:])
    os.write(out, report.encode() + b"\n")
