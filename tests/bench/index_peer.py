"""Measures one Python engine for vectors: exact search and graphs, one thread a question.

    python tests/bench/index_peer.py ENGINE FOLDER [--dim N] [--rows FILE] [--m M ...]

ENGINE is faiss, hnswlib, usearch, symphonyqg or vsag; exact search in a batch is of 64 questions. FOLDER holds rows.f32 and
queries.f32, little-endian, as `index_bench` writes them; FILE is in the place of rows.f32, and with --m there are graphs of
these M and no exact search. Prints one JSON object: {"engine", "exact": {"single", "batch"} or
null, "graphs": [{"m", "build_seconds", "bytes", "efforts": {"20": [[ef, questions/s, recall], ...], "10": ...}}, ...]};
figures are questions a second: of exact search in its only run, of graphs in the best of two runs or, within a second,
of up to 20, as those of dpr in `graph_efforts`. Graphs have 2 M links at most (SymphonyQG's number is a multiple of
32) and efConstruction 200, are built with two threads, and are asked for 20 rows by inner product on one, and then for 10,
all questions in one call where the engine takes them so. VSAG searches by 8-bit codes and scores by the vectors. Recall is against exact search with
numpy.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time

K = 20
KS = (K, 10)
BATCH = 64
MS = {"faiss": (16, 24, 32), "hnswlib": (16, 24, 32), "usearch": (16, 24, 32), "symphonyqg": (16, 32), "vsag": (16, 24, 32)}
EF_CONSTRUCTION = 200
THREADS = 2
LEAST_RUNS, RUNS, RUN_SECONDS = 2, 20, 1.0
EFFORTS = [30, 40, 60, 80, 120, 160, 200, 240, 280, 320, 400, 480, 640, 800, 1000]


def timed(work):
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def size_of(save):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "index")
        save(path)
        return os.path.getsize(path)


def faiss_exact(rows, queries):
    import faiss

    flat = faiss.IndexFlatIP(rows.shape[1])
    flat.add(rows)
    faiss.omp_set_num_threads(1)
    # Batches as matrix products, as before faiss 1.15: quicker here than row by row, its default for so few.
    faiss.cvar.distance_compute_blas_threshold = 20
    _, single = timed(lambda: [flat.search(query[None], K) for query in queries])
    _, batch = timed(lambda: [flat.search(queries[at : at + BATCH], K) for at in range(0, len(queries), BATCH)])
    return {"single": len(queries) / single, "batch": len(queries) / batch}


def faiss_engine(numpy, rows, queries, m):
    import faiss

    graph = faiss.IndexHNSWFlat(rows.shape[1], m, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = EF_CONSTRUCTION
    faiss.omp_set_num_threads(THREADS)
    _, seconds = timed(lambda: graph.add(rows))
    faiss.omp_set_num_threads(1)

    def ask(ef, k):
        graph.hnsw.efSearch = ef
        return graph.search(queries, k)[1]

    return seconds, size_of(lambda path: faiss.write_index(graph, path)), ask


def hnswlib_engine(numpy, rows, queries, m):
    import hnswlib

    graph = hnswlib.Index(space="ip", dim=rows.shape[1])
    graph.init_index(max_elements=len(rows), M=m, ef_construction=EF_CONSTRUCTION, random_seed=100)
    _, seconds = timed(lambda: graph.add_items(rows, num_threads=THREADS))

    def ask(ef, k):
        graph.set_ef(ef)
        return graph.knn_query(queries, k=k, num_threads=1)[0]

    return seconds, size_of(graph.save_index), ask


def usearch_engine(numpy, rows, queries, m):
    from usearch.index import Index

    graph = Index(ndim=rows.shape[1], metric="ip", dtype="f32", connectivity=m, expansion_add=EF_CONSTRUCTION)
    keys = numpy.arange(len(rows))
    _, seconds = timed(lambda: graph.add(keys, rows, threads=THREADS))

    def ask(ef, k):
        graph.expansion_search = ef
        return graph.search(queries, k, threads=1).keys

    return seconds, size_of(graph.save), ask


def symphonyqg_engine(numpy, rows, queries, m):
    from rabitqlib import SymqgIndex

    graph = SymqgIndex(rows.shape[1], 2 * m, metric="ip")
    _, seconds = timed(lambda: graph.build(rows, EF_CONSTRUCTION, num_threads=THREADS))

    def ask(ef, k):
        return graph.search(queries, k, ef, num_threads=1)[0]

    return seconds, size_of(graph.save), ask


def vsag_engine(numpy, rows, queries, m):
    import pyvsag

    parameters = {
        "dtype": "float32",
        "metric_type": "ip",
        "dim": rows.shape[1],
        "index_param": {
            "base_quantization_type": "sq8",
            "use_reorder": True,
            "precise_quantization_type": "fp32",
            "max_degree": 2 * m,
            "ef_construction": EF_CONSTRUCTION,
            "build_thread_count": THREADS,
        },
    }
    graph = pyvsag.Index("hgraph", json.dumps(parameters))
    ids = numpy.arange(len(rows))
    _, seconds = timed(lambda: graph.build(rows.reshape(-1), ids, len(rows), rows.shape[1]))

    def ask(ef, k):
        how = json.dumps({"hgraph": {"ef_search": ef}})
        return numpy.stack([graph.knn_search(query, k, how)[0] for query in queries])

    return seconds, size_of(graph.save), ask


def best_scores(numpy, rows, queries):
    """The best K scores of each query, ascending, `[queries, K]`."""
    return numpy.sort(numpy.partition(queries @ rows.T, -K, axis=1)[:, -K:], axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    engines = {"faiss": faiss_engine, "hnswlib": hnswlib_engine, "usearch": usearch_engine, "symphonyqg": symphonyqg_engine, "vsag": vsag_engine}
    parser.add_argument("engine", choices=engines)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--rows", type=pathlib.Path)
    parser.add_argument("--m", type=int, nargs="+")
    arguments = parser.parse_args()
    # Beside the rows: an index of a million may be too large for a temporary folder in memory.
    tempfile.tempdir = str(arguments.folder)
    import numpy

    read = lambda path: numpy.fromfile(path, dtype="<f4").reshape(-1, arguments.dim)
    rows, queries = read(arguments.rows or arguments.folder / "rows.f32"), read(arguments.folder / "queries.f32")
    truth = numpy.concatenate(
        [best_scores(numpy, rows, queries[at : at + BATCH]) for at in range(0, len(queries), BATCH)]
    )
    exact = faiss_exact(rows, queries) if arguments.engine == "faiss" and not arguments.m else None
    graphs = []
    for m in arguments.m or MS[arguments.engine]:
        seconds, size, ask = engines[arguments.engine](numpy, rows, queries, m)
        efforts = {}
        for k in KS:
            settings = efforts[str(k)] = []
            for ef in EFFORTS:
                found, took = timed(lambda: ask(ef, k))
                runs = [took]
                while len(runs) < LEAST_RUNS or (len(runs) < RUNS and sum(runs) <= RUN_SECONDS):
                    runs.append(timed(lambda: ask(ef, k))[1])
                took = min(runs)
                if found.min() < 0 or any(len(set(rows)) < k for rows in found.tolist()):
                    raise SystemExit(f"{arguments.engine} found fewer than {k} rows (M {m}, ef {ef})")
                found_scores = numpy.einsum("qd,qkd->qk", queries, rows[found.astype(numpy.int64)])
                hits = (found_scores >= truth[:, K - k :][:, :1] - 1e-6).sum()
                settings.append([ef, len(queries) / took, float(hits / len(queries) / k)])
        graphs.append({"m": m, "build_seconds": seconds, "bytes": size, "efforts": efforts})
    print(json.dumps({"engine": arguments.engine, "exact": exact, "graphs": graphs}))


main()
