"""Measures one Python engine for vectors: exact search and a graph, one thread a question.

    python tests/bench/index_peer.py ENGINE FOLDER [--dim N]

ENGINE is faiss, hnswlib or usearch; exact search in a batch is of 64 questions. FOLDER holds rows.f32 and queries.f32,
little-endian, as `index_bench` writes them. Prints one JSON object: {"engine", "exact": {"single", "batch"} or null, "hnsw": {"build_seconds", "bytes", "efforts":
[[ef, questions/s, recall@20], ...]}}; figures are questions a second. All graphs have M 16 and efConstruction 200, are built
with two threads, and are asked for 20 rows by inner product. Recall is against exact search with numpy.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time

K = 20
BATCH = 64
M = 16
EF_CONSTRUCTION = 200
THREADS = 2
EFFORTS = [30, 40, 60, 80, 120, 160, 200, 240, 280, 320, 400, 480]


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def size_of(save):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index")
        save(path)
        return os.path.getsize(path)


def faiss_engine(numpy, rows, queries):
    import faiss

    dim = rows.shape[1]
    flat = faiss.IndexFlatIP(dim)
    flat.add(rows)
    faiss.omp_set_num_threads(1)
    _, single = timed(lambda: [flat.search(query[None], K) for query in queries])
    _, batch = timed(lambda: [flat.search(queries[at : at + BATCH], K) for at in range(0, len(queries), BATCH)])
    graph = faiss.IndexHNSWFlat(dim, M, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = EF_CONSTRUCTION
    faiss.omp_set_num_threads(THREADS)
    _, seconds = timed(lambda: graph.add(rows))
    faiss.omp_set_num_threads(1)

    def ask(ef):
        graph.hnsw.efSearch = ef
        return numpy.stack([graph.search(query[None], K)[1][0] for query in queries])

    exact = {"single": len(queries) / single, "batch": len(queries) / batch}
    return exact, seconds, size_of(lambda path: faiss.write_index(graph, path)), ask


def hnswlib_engine(numpy, rows, queries):
    import hnswlib

    graph = hnswlib.Index(space="ip", dim=rows.shape[1])
    graph.init_index(max_elements=len(rows), M=M, ef_construction=EF_CONSTRUCTION, random_seed=100)
    _, seconds = timed(lambda: graph.add_items(rows, num_threads=THREADS))

    def ask(ef):
        graph.set_ef(ef)
        return numpy.stack([graph.knn_query(query, k=K, num_threads=1)[0][0] for query in queries])

    return None, seconds, size_of(graph.save_index), ask


def usearch_engine(numpy, rows, queries):
    from usearch.index import Index

    graph = Index(ndim=rows.shape[1], metric="ip", dtype="f32", connectivity=M, expansion_add=EF_CONSTRUCTION)
    keys = numpy.arange(len(rows))
    _, seconds = timed(lambda: graph.add(keys, rows, threads=THREADS))

    def ask(ef):
        graph.expansion_search = ef
        return numpy.stack([graph.search(query, K, threads=1).keys for query in queries])

    return None, seconds, size_of(graph.save), ask


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    engines = {"faiss": faiss_engine, "hnswlib": hnswlib_engine, "usearch": usearch_engine}
    parser.add_argument("engine", choices=engines)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dim", type=int, default=768)
    arguments = parser.parse_args()
    import numpy

    read = lambda name: numpy.fromfile(arguments.folder / name, dtype="<f4").reshape(-1, arguments.dim)
    rows, queries = read("rows.f32"), read("queries.f32")
    scores = queries @ rows.T
    truth = numpy.sort(numpy.partition(scores, -K, axis=1)[:, -K:], axis=1)[:, :1]
    exact, seconds, size, ask = engines[arguments.engine](numpy, rows, queries)
    efforts = []
    for ef in EFFORTS:
        found, took = timed(lambda: ask(ef))
        found_scores = numpy.take_along_axis(scores, found.astype(numpy.int64), axis=1)
        recall = float((found_scores >= truth - 1e-6).sum() / truth.shape[0] / K)
        efforts.append([ef, len(queries) / took, recall])
    hnsw = {"build_seconds": seconds, "bytes": size, "efforts": efforts}
    print(json.dumps({"engine": arguments.engine, "exact": exact, "hnsw": hnsw}))


main()
