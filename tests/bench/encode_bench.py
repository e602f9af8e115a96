"""Measures one Python engine: passages/s over the corpus, and the latency of a 16-token question.

    python tests/bench/encode_bench.py ENGINE TEXTS.json [--model DIR] [--onnx DIR] [--threads N] [--limit N]

ENGINE is sentence-transformers, onnxruntime or onnxruntime-int8. TEXTS.json (see `texts`) holds the passages with
their titles and the question. Prints one JSON object: {"engine", "threads", "passages", "seconds",
"passages_per_second", "tokens", "question_ms": {threads: median}, "vectors": [base64 of the first 32]}. Loading and a
warm-up are not counted; tokenisation, pooling and normalisation are. Every engine gets the same token ids: a passage is
`title [SEP] text`, in which tokenizers read [SEP] as the special token, cut to 256 tokens.
"""

import argparse
import base64
import gzip
import json
import pathlib
import statistics
import time

import numpy

MAX_TOKENS = 256


def texts(path):
    """(passages as `title [SEP] text`, question) of SQuAD json."""
    raw = pathlib.Path(path).read_bytes()
    data = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)["data"]
    passages = [
        f"{article['title'].replace('_', ' ')} [SEP] {paragraph['context']}"
        for article in data
        for paragraph in article["paragraphs"]
    ]
    return passages, QUESTION


# 16 tokens with [CLS] and [SEP].
QUESTION = "which nfl team represented the afc at super bowl 50 in the year 2016"


class SentenceTransformers:
    """sentence-transformers at its defaults: batches of 32, sorted by length."""

    def __init__(self, args, threads):
        import sentence_transformers
        import torch

        torch.set_num_threads(threads)
        self.model = sentence_transformers.SentenceTransformer(args.model, device="cpu")
        self.model.max_seq_length = MAX_TOKENS

    def passages(self, batch):
        return self.model.encode(batch, batch_size=32, normalize_embeddings=True, show_progress_bar=False)

    def question(self, text):
        return self.model.encode(text, normalize_embeddings=True, show_progress_bar=False)


class OnnxRuntime:
    """onnxruntime on the CPU, one passage at a time: faster here than any padded batch."""

    def __init__(self, args, threads, file="model.onnx"):
        import onnxruntime
        import tokenizers

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        path = str(pathlib.Path(args.onnx) / file)
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(args.model) / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def passages(self, batch):
        return numpy.stack([self.question(text) for text in batch])

    def question(self, text):
        ids = numpy.array([self.tokenizer.encode(text).ids], dtype=numpy.int64)
        hidden = self.session.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0][0]
        mean = hidden.mean(axis=0)
        return mean / numpy.linalg.norm(mean)


ENGINES = {
    "sentence-transformers": SentenceTransformers,
    "onnxruntime": OnnxRuntime,
    "onnxruntime-int8": lambda args, threads: OnnxRuntime(args, threads, "model.int8.onnx"),
}


def question_latency(engine, text, rounds=200):
    """Median milliseconds from text to vector, after a warm-up."""
    times = []
    for i in range(rounds + 20):
        start = time.perf_counter()
        engine.question(text)
        if i >= 20:
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("texts")
    parser.add_argument("--model", default="target/models/minilm")
    parser.add_argument("--onnx", default="target/bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, help="only every n-th passage, so that about this many remain")
    args = parser.parse_args()
    passages, question = texts(args.texts)
    if args.limit and args.limit < len(passages):
        passages = passages[:: -(-len(passages) // args.limit)]
    engine = ENGINES[args.engine](args, args.threads)
    engine.passages(passages[:16])
    start = time.perf_counter()
    vectors = numpy.asarray(engine.passages(passages), dtype="<f4")
    seconds = time.perf_counter() - start
    latency = {args.threads: question_latency(engine, question)}
    if args.threads != 1:
        latency[1] = question_latency(ENGINES[args.engine](args, 1), question)
    print(
        json.dumps(
            {
                "engine": args.engine,
                "threads": args.threads,
                "passages": len(passages),
                "seconds": seconds,
                "passages_per_second": len(passages) / seconds,
                "question_ms": latency,
                "vectors": [base64.b64encode(row.tobytes()).decode() for row in vectors[:32]],
            }
        )
    )


if __name__ == "__main__":
    main()
