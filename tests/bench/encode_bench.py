"""Measures one Python engine: passages/s over the corpus, and the latency of a 16-token question.

    python tests/bench/encode_bench.py ENGINE TEXTS.json [--model DIR] [--onnx DIR] [--threads N] [--limit N]
        [--like OUTPUT.json | --turns]

ENGINE is a name of `ENGINES`; LiteRT, OpenVINO and CTranslate2 want the packages of requirements/encoders.in and the
files of export_encoders.py in the folder of the ONNX models. TEXTS.json (see `texts`) holds the passages with their
titles and the question. Prints one JSON object: {"engine", "threads", "way", "passages", "seconds",
"passages_per_second", "question_ms": {threads: median}, "vectors": [base64 of the first 32]}, and with --like
"least_cosine", of these vectors with those that another engine's output has. Loading and a warm-up are not counted;
tokenisation, pooling and normalisation are. Every engine gets the same token ids: a passage is `title [SEP] text`, in
which tokenizers read [SEP] as the special token, cut to 256 tokens. An engine that gets one text at a time is tried in
two ways, and measured in the faster: all threads for a text ("together"), and an engine with one thread for each
("apart"). LiteRT's models have one length each: its passages are cut or padded to 160 tokens, and null stands for the
vector of one that was cut.

With --turns nothing but questions is measured, on one thread: for each line of its input the program encodes the
question 40 times, and prints the median milliseconds.
"""

import argparse
import base64
import gzip
import json
import pathlib
import queue
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

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


class OneByOne:
    """An engine that gets one text at a time: no padding."""

    def __init__(self, args, max_tokens=MAX_TOKENS):
        import tokenizers

        self.tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(args.model) / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_tokens)

    def passages(self, batch):
        return numpy.stack([self.question(text) for text in batch])


class Apart:
    """An engine that gets one text at a time, as many times as there are threads, with one thread each."""

    def __init__(self, engines):
        self.engines = queue.SimpleQueue()
        for engine in engines:
            self.engines.put(engine)
        self.pool = ThreadPoolExecutor(len(engines))

    def passages(self, batch):
        return numpy.stack(list(self.pool.map(self.passage, batch)))

    def passage(self, text):
        engine = self.engines.get()
        try:
            return engine.question(text)
        finally:
            self.engines.put(engine)


class OnnxRuntime(OneByOne):
    """onnxruntime on the CPU: one passage at a time is faster here than any padded batch."""

    def __init__(self, args, threads, file="model.onnx"):
        import onnxruntime

        super().__init__(args)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        path = str(pathlib.Path(args.onnx) / file)
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def question(self, text):
        ids = numpy.array([self.tokenizer.encode(text).ids], dtype=numpy.int64)
        return pooled(self.session.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0][0])


class OpenVino(OneByOne):
    """OpenVINO with the f32 model; in bf16 where the processor has it, and otherwise as OpenVINO then chooses."""

    def __init__(self, args, threads, precision="f32"):
        import openvino

        super().__init__(args)
        settings = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
        settings["INFERENCE_NUM_THREADS"] = threads
        self.model = openvino.Core().compile_model(str(pathlib.Path(args.onnx) / "model.onnx"), "CPU", settings)

    def question(self, text):
        ids = numpy.array([self.tokenizer.encode(text).ids], dtype=numpy.int64)
        return pooled(self.model({"input_ids": ids, "attention_mask": numpy.ones_like(ids)})[0][0])


class CTranslate2(OneByOne):
    """CTranslate2 with weights in 8 bits. Batches of texts of like length, a thread each, as its documents advise."""

    def __init__(self, args, threads):
        import ctranslate2

        super().__init__(args)
        folder = str(pathlib.Path(args.onnx) / "ctranslate2-int8")
        self.encoder = ctranslate2.Encoder(folder, device="cpu", inter_threads=threads, intra_threads=1)

    def passages(self, batch):
        ids = [self.tokenizer.encode(text).ids for text in batch]
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        chunks = [order[at : at + 8] for at in range(0, len(order), 8)]
        vectors = [None] * len(ids)
        with ThreadPoolExecutor(self.encoder.num_encoders) as pool:
            for chunk, states in zip(chunks, pool.map(lambda chunk: self.states([ids[at] for at in chunk]), chunks)):
                for at, rows in zip(chunk, states):
                    vectors[at] = pooled(rows[: len(ids[at])])
        return numpy.stack(vectors)

    def question(self, text):
        return pooled(self.states([self.tokenizer.encode(text).ids])[0])

    def states(self, ids):
        return numpy.array(self.encoder.forward_batch(ids).last_hidden_state)


class LiteRt(OneByOne):
    """LiteRT with its XNNPACK delegate: a model for questions and one for passages, each of one length."""

    LENGTHS = (16, 160)

    def __init__(self, args, threads, precision="f32"):
        from ai_edge_litert.interpreter import Interpreter

        super().__init__(args, max_tokens=self.LENGTHS[-1])
        self.models = {}
        for length in self.LENGTHS:
            path = str(pathlib.Path(args.onnx) / "litert" / f"{precision}-{length}.tflite")
            self.models[length] = Interpreter(path, num_threads=threads).get_signature_runner()

    def question(self, text):
        encoding = self.tokenizer.encode(text)
        ids = encoding.ids
        length = next(length for length in self.LENGTHS if len(ids) <= length)
        padding = length - len(ids)
        padded = numpy.array([ids + [0] * padding], dtype=numpy.int32)
        mask = numpy.array([[1] * len(ids) + [0] * padding], dtype=numpy.float32)
        return self.models[length](args_0=padded, args_1=mask)["output_0"][0]

    def is_cut(self, text):
        return bool(self.tokenizer.encode(text).overflowing)


def pooled(states):
    """The mean over the tokens, at unit length."""
    mean = states.mean(axis=0)
    return mean / numpy.linalg.norm(mean)


ENGINES = {
    "sentence-transformers": SentenceTransformers,
    "onnxruntime": OnnxRuntime,
    "onnxruntime-int8": lambda args, threads: OnnxRuntime(args, threads, "model.int8.onnx"),
    "openvino": OpenVino,
    "openvino-bf16": lambda args, threads: OpenVino(args, threads, "bf16"),
    "ctranslate2-int8": CTranslate2,
    "litert": LiteRt,
    "litert-int8": lambda args, threads: LiteRt(args, threads, "int8"),
}


# Passages by which the way is chosen.
TRIED = 128


def encoded(engine, passages):
    """(vectors, seconds)."""
    start = time.perf_counter()
    vectors = numpy.asarray(engine.passages(passages), dtype="<f4")
    return vectors, time.perf_counter() - start


def question_latency(engine, text, rounds=200, warm_up=20):
    """Median milliseconds from text to vector, after a warm-up."""
    times = []
    for i in range(rounds + warm_up):
        start = time.perf_counter()
        engine.question(text)
        if i >= warm_up:
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


# Questions of a turn.
TURN = 40


def take_turns(engine, text):
    """Answers each line of the input with the milliseconds of a question."""
    for _ in sys.stdin:
        print(question_latency(engine, text, rounds=TURN, warm_up=0), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("texts")
    parser.add_argument("--model", default="target/models/minilm")
    parser.add_argument("--onnx", default="target/bench")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=int, help="only every n-th passage, so that about this many remain")
    parser.add_argument("--like", help="what another engine printed: says how near its vectors are")
    parser.add_argument("--turns", action="store_true", help="questions only, some for each line of the input")
    args = parser.parse_args()
    if args.turns:
        take_turns(ENGINES[args.engine](args, 1), QUESTION)
        return
    passages, question = texts(args.texts)
    if args.limit and args.limit < len(passages):
        passages = passages[:: -(-len(passages) // args.limit)]
    engine = ENGINES[args.engine](args, args.threads)
    ways = {"together": engine}
    if args.threads > 1 and type(engine).passages is OneByOne.passages:
        ways["apart"] = Apart([ENGINES[args.engine](args, 1) for _ in range(args.threads)])
    for tried in ways.values():
        tried.passages(passages[:16])
    some = passages[:: -(-len(passages) // TRIED)]
    way = min(ways, key=lambda name: encoded(ways[name], some)[1]) if len(ways) > 1 else "together"
    vectors, seconds = encoded(ways[way], passages)
    is_cut = getattr(engine, "is_cut", lambda _: False)
    latency = {args.threads: question_latency(engine, question)}
    if args.threads != 1:
        latency[1] = question_latency(ENGINES[args.engine](args, 1), question)
    result = {
        "engine": args.engine,
        "threads": args.threads,
        "way": way,
        "passages": len(passages),
        "seconds": seconds,
        "passages_per_second": len(passages) / seconds,
        "question_ms": latency,
        "vectors": [
            None if is_cut(text) else base64.b64encode(row.tobytes()).decode()
            for text, row in zip(passages[:32], vectors)
        ],
    }
    if args.like:
        others = json.loads(pathlib.Path(args.like).read_text())["vectors"]
        result["least_cosine"] = min(cosine(*pair) for pair in zip(result["vectors"], others) if all(pair))
    print(json.dumps(result))


def cosine(*encoded):
    """The cosine of two vectors in base64."""
    a, b = (numpy.frombuffer(base64.b64decode(text), "<f4").astype(float) for text in encoded)
    return float(a @ b / (numpy.linalg.norm(a) * numpy.linalg.norm(b)))


if __name__ == "__main__":
    main()
