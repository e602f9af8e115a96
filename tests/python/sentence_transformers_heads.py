"""Writes tests/fixtures/sentence-transformers/heads: heads, prompts and sizes as sentence-transformers saves them.

    python tests/python/sentence_transformers_heads.py

Like sentence_transformers_models.py, whose random BERT and tokenizer these models have, it writes what the installed
version writes: run it once with sentence-transformers 6 and once with 5.0 (and transformers 4.57). A directory holds the
files that differ from those of mean-N, and golden.json:

  texts.json             the texts of all directories
  NAME-N/golden.json     `questions` and `passages`: vectors of the texts by encode_query and encode_document, the
                         latter only where they differ; `space` and `template`: the vectors of the first texts as
                         titles of the others, joined so
"""

import json
import pathlib
import shutil
import tempfile

import numpy
import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

import sentence_transformers_models as models

HEADS = models.FIXTURES / "heads"
BASE = models.FIXTURES / f"mean-{models.MAJOR}"
TEMPLATE = "the {title} of {text}"
#: Titles that the joins are tried with.
TITLES = 5

TEXTS = [
    *models.TEXTS,
    "a dog is a dog",
    "Who sleeps of the night?",
    "war and war and war",
    "the game",
    "z",
    "most of the war was won when the cat sleeps",
    "is the day the night",
    "x y z and the rest of it",
    "cats, dogs and others",
    "then",
    "when the cat is away",
    "unknown words go to letters",
    "the the the the",
    "who won the war of the cats",
    "day and night and day and night and day and night and day and night and day and night",
    "one more question of the day",
]


def rounded(vectors):
    return [[float(f"{float(value):.8g}") for value in row] for row in vectors]


def write_json(path, value):
    """One vector a line."""
    lines = []
    for key, entry in value.items():
        if key in ("questions", "passages", "space", "template"):
            rows = ",\n  ".join(json.dumps(row) for row in entry)
            lines.append(f' "{key}": [\n  {rows}\n ]')
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(entry)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def same(path, other):
    """Whether two files hold the same, but for what a tokenizer was last used with."""
    if not other.is_file():
        return False
    if path.suffix != ".json":
        return path.read_bytes() == other.read_bytes()
    files = [json.loads(file.read_text()) for file in (path, other)]
    for key in ("truncation", "padding", "local_files_only", "transformers_version"):
        for file in files:
            file.pop(key, None)
    return files[0] == files[1]


def save(model, name, **loading):
    """Saves what is not in mean-N already."""
    target = HEADS / f"{name}-{models.MAJOR}"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, create_model_card=False)
        for path in sorted(pathlib.Path(folder).rglob("*")):
            relative = path.relative_to(folder)
            # The modules and the settings of mean-N are not taken over.
            own = relative.parts[0].endswith(("_Pooling", "_Normalize", "_Dense"))
            own = own or relative.name in ("modules.json", "config_sentence_transformers.json")
            if path.is_file() and (own or not same(path, BASE / relative)):
                (target / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target / relative)
        # What was saved is what is measured.
        return target, SentenceTransformer(folder, device="cpu", **loading)


def golden(target, **vectors):
    about = {"about": "Written by tests/python/sentence_transformers_heads.py"}
    about |= {"sentence_transformers": sentence_transformers.__version__}
    write_json(target / "golden.json", about | {name: rounded(rows) for name, rows in vectors.items()})
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target.name}: {size:,} bytes")


def write(base, name, *modules, **settings):
    """One model of `modules` after the transformer, and its vectors."""
    transformer = Transformer(base, max_seq_length=models.MAX_TOKENS)
    made = SentenceTransformer(modules=[transformer, *modules], device="cpu", **settings)
    # Version 5.0 does not save the size, which is then said at the import too.
    loading = {key: settings[key] for key in ["truncate_dim"] if key in settings and models.MAJOR == "5"}
    target, model = save(made, name, **loading)
    questions, passages = model.encode_query(TEXTS), model.encode_document(TEXTS)
    vectors = {"questions": questions}
    if not numpy.array_equal(questions, passages):
        vectors["passages"] = passages
    if name == "prompts":
        pairs = list(zip(TEXTS[:TITLES], TEXTS[TITLES : 2 * TITLES]))
        vectors["space"] = model.encode_document([f"{title} {text}" for title, text in pairs])
        vectors["template"] = model.encode_document([TEMPLATE.format(title=a, text=b) for a, b in pairs])
    golden(target, **vectors)
    if name == "euclidean":
        # For each text as a question the texts from the nearest on, by numpy in double precision.
        points = questions.astype(numpy.float64)
        distances = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        order = distances.argsort(axis=1, kind="stable")
        (target / "ranking.json").write_text(json.dumps(order.tolist()) + "\n")


def dense(inputs, outputs, activation, bias=True):
    layer = Dense(inputs, outputs, bias=bias, activation_function=activation)
    return models.randomize(layer)


def pooler(base):
    """The pooler's output by transformers alone, cut where the others cut."""
    target = HEADS / f"pooler-{models.MAJOR}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    tokens = transformers.AutoTokenizer.from_pretrained(base)
    model = transformers.BertModel.from_pretrained(base).eval()
    rows = []
    with torch.no_grad():
        for text in TEXTS:
            inputs = tokens(text, return_tensors="pt", truncation=True, max_length=models.MAX_TOKENS)
            rows.append(model(**inputs).pooler_output[0])
    golden(target, questions=rows)


def main():
    HEADS.mkdir(parents=True, exist_ok=True)
    (HEADS / "texts.json").write_text(json.dumps(TEXTS, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as base:
        models.plain(base, transformers.BertModel)
        for mode in ("cls", "mean", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens"):
            write(base, mode, Pooling(8, pooling_mode=mode))
        pooler(base)
        mean = lambda: Pooling(8, pooling_mode="mean")
        write(base, "dense-tanh", mean(), dense(8, 12, torch.nn.Tanh()), Normalize())
        write(base, "dense-two", mean(), dense(8, 16, torch.nn.GELU(), False), dense(16, 6, torch.nn.Identity()))
        write(base, "dense-relu", mean(), dense(8, 9, torch.nn.ReLU()), dense(9, 7, torch.nn.Sigmoid(), False))
        write(base, "normalize-first", mean(), Normalize(), dense(8, 10, torch.nn.Tanh()))
        prompts = {"query": "who is ", "document": "then the "}
        write(base, "prompts", mean(), Normalize(), prompts=prompts)
        named = {"passage": "most of ", "other": "when the "}
        write(base, "prompt-default", mean(), prompts=named, default_prompt_name="other")
        write(base, "truncated", mean(), Normalize(), truncate_dim=5)
        write(base, "truncated-dense", mean(), dense(8, 12, torch.nn.Tanh()), truncate_dim=7)
        write(base, "cosine", mean(), similarity_fn_name="cosine")
        write(base, "euclidean", mean(), similarity_fn_name="euclidean")


if __name__ == "__main__":
    main()
