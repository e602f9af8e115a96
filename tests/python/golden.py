"""Writes the golden files under tests/fixtures: what Python's transformers answers, for the Rust tests to match.

    python tests/python/golden.py SQUAD.json --minilm DIR [--mpnet DIR] [--only NAME ...]

SQUAD.json is SQuAD v1.1 dev (CC BY-SA 4.0, plain or .gz: web-demo/corpus holds it), the only source of English
text here. DIR is a Hugging Face model directory. Everything else is made up by this script from fixed seeds, so
a second run with the same library versions writes the same bytes. Needs torch, transformers, safetensors, numpy.

What is written (vectors: base64 of little-endian f32, one string a row):
  minilm/golden.json          64 questions and 64 passages: mean pooling, L2 norm, [384]
  mpnet/golden.json           16 + 16, the same, [768]
  dpr-tiny/                   random DPR encoders (question/, ctx/, and question/ again in shards), CLS, [32]
  dpr-tiny-projected/         the same with projection_dim 48
  mpnet-tiny/                 random MPNet, mean pooling, L2 norm, [32]
  tokens/golden.json.gz       2,000 lines and their token ids by MiniLM's tokenizer

How a text becomes token ids, everywhere: a question is `[CLS] q [SEP]`; a passage is `[CLS] title [SEP] text [SEP]`
(MPNet: `<s> title </s></s> text </s>`), of which only the text is cut to reach max_tokens; a passage without a title
is `[CLS] text [SEP]`. Token types are all zero. Each text is encoded alone, without padding.
"""

import argparse
import base64
import gzip
import hashlib
import json
import pathlib
import random
import shutil

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

from lines import token_lines

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
SEED = 20200410


def read_squad(path):
    """[(title, [paragraph], [question])] of a SQuAD json file."""
    raw = pathlib.Path(path).read_bytes()
    data = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)["data"]
    return [
        (
            article["title"].replace("_", " "),
            [p["context"] for p in article["paragraphs"]],
            [q["question"].strip() for p in article["paragraphs"] for q in p["qas"]],
        )
        for article in data
    ]


def spread(items, count):
    """`count` of the items, evenly over their lengths, shortest and longest included."""
    ranked = sorted(dict.fromkeys(items), key=lambda item: (len(item), item))
    return [ranked[i * (len(ranked) - 1) // (count - 1)] for i in range(count)]


def pick_questions(squad, count):
    """Real questions of every length; the last few are several joined, to pass 256 tokens."""
    every = [q for _, _, questions in squad for q in questions if len(q.split()) >= 3]
    joined = count // 16
    chosen = spread(every, count - joined)
    rng = random.Random(SEED)
    return chosen + [" ".join(rng.sample(every, 8 + 20 * i)) for i in range(joined)]


def pick_passages(squad, count):
    """Real paragraphs with their titles: the first words of some, whole ones, and several joined (> 512 tokens)."""
    rng = random.Random(SEED + 1)
    passages = []
    for i in range(count):
        title, paragraphs, _ = squad[i * len(squad) // count]
        start = rng.randrange(len(paragraphs))
        if i % 4 == 0:  # short
            text = " ".join(paragraphs[start].split()[: 3 + i // 2])
        elif i % 8 == 7:  # long
            text = " ".join(paragraphs[start : start + 4 + i % 3] or paragraphs)
            text = text if len(text.split()) > 400 else " ".join(paragraphs[:6])
        else:
            text = paragraphs[start]
        passages.append({"title": "" if i % 16 == 5 else title, "text": text})
    return passages


def question_ids(tokenizer, text, max_tokens):
    return tokenizer(text, truncation=True, max_length=max_tokens)["input_ids"]


def passage_ids(tokenizer, passage, max_tokens):
    if not passage["title"]:
        return question_ids(tokenizer, passage["text"], max_tokens)
    pair = tokenizer(passage["title"], passage["text"], truncation="longest_first", max_length=max_tokens)
    return pair["input_ids"]


def hidden_states(model, ids):
    """[tokens, hidden] of one row."""
    row = torch.tensor([ids])
    extra = {} if model.config.model_type == "mpnet" else {"token_type_ids": torch.zeros_like(row)}
    return model(input_ids=row, attention_mask=torch.ones_like(row), **extra).last_hidden_state[0]


def mean_normalized(model, ids):
    mean = hidden_states(model, ids).mean(dim=0)
    return mean / mean.norm()


def dpr_vector(model, ids):
    """What DPR calls its pooler output: the CLS row, projected when the model projects."""
    row = torch.tensor([ids])
    return model(
        input_ids=row, attention_mask=torch.ones_like(row), token_type_ids=torch.zeros_like(row)
    ).pooler_output[0]


def packed(vector):
    return base64.b64encode(vector.detach().numpy().astype("<f4").tobytes()).decode()


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{path.relative_to(FIXTURES)}: {path.stat().st_size:,} bytes")


def write_golden(path, facts, tokenizer, questions, passages, max_tokens, encode_question, encode_passage):
    question_rows = [question_ids(tokenizer, q, max_tokens) for q in questions]
    passage_rows = [passage_ids(tokenizer, p, max_tokens) for p in passages]
    write_json(
        path,
        {
            "about": "Written by tests/python/golden.py; texts from SQuAD v1.1 dev, CC BY-SA 4.0.",
            "transformers": transformers.__version__,
            **facts,
            "max_tokens": max_tokens,
            "questions": questions,
            "question_tokens": [len(row) for row in question_rows],
            "question_vectors": [packed(encode_question(row)) for row in question_rows],
            "passages": passages,
            "passage_tokens": [len(row) for row in passage_rows],
            "passage_vectors": [packed(encode_passage(row)) for row in passage_rows],
        },
    )


def pretrained(name, directory, squad, count, max_tokens=256):
    """Golden vectors of a real sentence encoder on disk."""
    directory = pathlib.Path(directory)
    tokenizer = load_tokenizer(directory)
    model = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    facts = {
        "model": name,
        "model_sha256": hashlib.sha256((directory / "model.safetensors").read_bytes()).hexdigest(),
        "pooling": "mean",
        "normalize": True,
        "dim": model.config.hidden_size,
    }
    encode = lambda ids: mean_normalized(model, ids)
    write_golden(
        FIXTURES / name / "golden.json",
        facts,
        tokenizer,
        pick_questions(squad, count),
        pick_passages(squad, count),
        max_tokens,
        encode,
        encode,
    )


def load_tokenizer(directory):
    return load_tokenizer_file(directory / "tokenizer.json")


def load_tokenizer_file(path):
    """The fast tokenizer as its tokenizer.json says, without the padding and truncation stored in it."""
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))


def shrink_tokenizer(source, target, texts, size):
    """Writes tokenizer files to `target` whose vocabulary is the `size` pieces of `source` that `texts` need most.

    Keeps the special tokens and all single characters in use, so that most words split instead of being unknown.
    """
    tokenizer = load_tokenizer(source)
    spec = json.loads((source / "tokenizer.json").read_text())
    vocab = spec["model"]["vocab"]
    keep = {token["content"] for token in spec["added_tokens"]} | {spec["model"]["unk_token"]}
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'\"()-"
    keep |= {p for c in letters for p in (c, "##" + c) if p in vocab}
    counts = {}
    for text in texts:
        for token in tokenizer.tokenize(text):
            counts[token] = counts.get(token, 0) + 1
    for token in sorted(counts, key=lambda token: (-counts[token], token)):
        if len(keep) == size:
            break
        keep.add(token)
    # Ids keep their order: MPNet's <s>, <pad>, </s> must stay 0, 1, 2, as its position offset relies on pad id 1.
    renumbered = {token: i for i, token in enumerate(sorted(keep, key=vocab.__getitem__))}
    spec["model"]["vocab"] = renumbered
    for token in spec["added_tokens"]:
        token["id"] = renumbered[token["content"]]
    post = spec["post_processor"]
    if post["type"] == "RobertaProcessing":
        for key in ("sep", "cls"):
            post[key][1] = renumbered[post[key][0]]
    else:
        for token in post["special_tokens"].values():
            token["ids"] = [renumbered[t] for t in token["tokens"]]
    target.mkdir(parents=True, exist_ok=True)
    text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    (target / "tokenizer.json").write_text(text, encoding="utf-8")
    named = json.loads((source / "tokenizer_config.json").read_text())
    kept = {k: v for k, v in named.items() if k.endswith("_token") or k in ("tokenizer_class", "do_lower_case")}
    (target / "tokenizer_config.json").write_text(json.dumps(kept, indent=1) + "\n")
    return renumbered


def randomize(model, seed):
    """Weights large enough that attention is not uniform and every bias and LayerNorm matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("LayerNorm.weight"):
                parameter.copy_(1.0 + 0.2 * noise)
            elif parameter.dim() == 1:
                parameter.copy_(0.1 * noise)
            elif "relative_attention_bias" in name:
                parameter.copy_(noise)
            else:
                parameter.copy_(noise * (0.5 if "embeddings" in name else 0.25))
    return model.eval()


def tiny_sizes(vocab, pad_token, max_positions):
    return {
        "vocab_size": len(vocab),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": max_positions,
        "pad_token_id": vocab[pad_token],
    }


def save_config(config, architecture, directory):
    """config.json with every value written out: save_pretrained leaves out those equal to a default."""
    fields = {k: v for k, v in config.to_dict().items() if v is not None and not k.startswith("_")}
    fields = {"architectures": [architecture], **{k: fields[k] for k in sorted(fields) if k != "architectures"}}
    fields.pop("transformers_version", None)
    (directory / "config.json").write_text(json.dumps(fields, indent=2) + "\n")


def dpr_tiny(name, source, squad, projection_dim, sharded):
    """Two independent random DPR encoders under Hugging Face's names, and their vectors."""
    root = FIXTURES / name
    shutil.rmtree(root, ignore_errors=True)
    questions, passages = pick_questions(squad, 16), pick_passages(squad, 16)
    texts = questions + [p["title"] + " " + p["text"] for p in passages]
    models = {}
    for part, kind in (("question", transformers.DPRQuestionEncoder), ("ctx", transformers.DPRContextEncoder)):
        directory = root / part
        vocab = shrink_tokenizer(pathlib.Path(source), directory, texts, 1000)
        config = transformers.DPRConfig(projection_dim=projection_dim, **tiny_sizes(vocab, "[PAD]", 128))
        config._attn_implementation = "eager"
        model = models[part] = randomize(kind(config), SEED + len(part) + projection_dim)
        save_config(config, kind.__name__, directory)
        tensors = {k: v.contiguous() for k, v in model.state_dict().items()}
        if part == "ctx":  # the released checkpoints carry these two kinds of tensors that nothing uses
            tensors["ctx_encoder.bert_model.embeddings.position_ids"] = torch.arange(128).unsqueeze(0)
            tensors["ctx_encoder.bert_model.pooler.dense.weight"] = torch.zeros(32, 32)
            tensors["ctx_encoder.bert_model.pooler.dense.bias"] = torch.zeros(32)
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    if sharded:
        shard(root / "question", root / "question-sharded")
    tokenizer = load_tokenizer(root / "question")
    facts = {"model": name, "pooling": "cls", "normalize": False, "dim": projection_dim or 32}
    write_golden(
        root / "golden.json",
        facts,
        tokenizer,
        questions,
        passages,
        128,
        lambda ids: dpr_vector(models["question"], ids),
        lambda ids: dpr_vector(models["ctx"], ids),
    )


def shard(source, target):
    """The same model in two safetensors files with an index, as large checkpoints come."""
    shutil.copytree(source, target)
    (target / "model.safetensors").unlink()
    tensors = sorted(load_file(source / "model.safetensors").items())
    halves = (tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :])
    names = [f"model-{i + 1:05}-of-00002.safetensors" for i in range(2)]
    for name, half in zip(names, halves):
        save_file(dict(half), target / name, metadata={"format": "pt"})
    index = {
        "metadata": {"total_size": sum(t.numel() * t.element_size() for _, t in tensors)},
        "weight_map": {key: name for name, half in zip(names, halves) for key, _ in half},
    }
    (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def mpnet_tiny(source, squad):
    root = FIXTURES / "mpnet-tiny"
    shutil.rmtree(root, ignore_errors=True)
    questions, passages = pick_questions(squad, 16), pick_passages(squad, 16)
    texts = questions + [p["title"] + " " + p["text"] for p in passages]
    vocab = shrink_tokenizer(pathlib.Path(source), root, texts, 1000)
    # Two positions are taken by MPNet's offset: 130 of them serve 128 tokens.
    config = transformers.MPNetConfig(
        layer_norm_eps=1e-5, bos_token_id=0, eos_token_id=2, **tiny_sizes(vocab, "<pad>", 130)
    )
    config._attn_implementation = "eager"
    model = randomize(transformers.MPNetModel(config, add_pooling_layer=False), SEED + 3)
    save_config(config, "MPNetModel", root)
    tensors = {k: v.contiguous() for k, v in model.state_dict().items()}
    save_file(tensors, root / "model.safetensors", metadata={"format": "pt"})
    facts = {"model": "mpnet-tiny", "pooling": "mean", "normalize": True, "dim": 32}
    encode = lambda ids: mean_normalized(model, ids)
    write_golden(root / "golden.json", facts, load_tokenizer(root), questions, passages, 128, encode, encode)


def token_golden(source, squad, max_tokens=256):
    """2,000 lines and the ids a question made of each would have."""
    tokenizer = load_tokenizer(pathlib.Path(source))
    lines = token_lines(squad, 2000, SEED)
    golden = {
        "about": "Written by tests/python/golden.py; English lines from SQuAD v1.1 dev, CC BY-SA 4.0.",
        "max_tokens": max_tokens,
        "lines": lines,
        "ids": [question_ids(tokenizer, line, max_tokens) for line in lines],
    }
    path = FIXTURES / "tokens" / "golden.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = json.dumps(golden, ensure_ascii=True, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(raw, mtime=0))
    print(f"{path.relative_to(FIXTURES)}: {path.stat().st_size:,} bytes, {len(lines)} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad", help="SQuAD v1.1 dev json, plain or .gz")
    parser.add_argument("--minilm", required=True, help="directory of all-MiniLM-L6-v2")
    parser.add_argument("--mpnet", help="directory of all-mpnet-base-v2")
    parser.add_argument("--only", nargs="*", help="names of the fixtures to write; all without this")
    args = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    squad = read_squad(args.squad)
    jobs = {
        "minilm": lambda: pretrained("minilm", args.minilm, squad, 64),
        "dpr-tiny": lambda: dpr_tiny("dpr-tiny", args.minilm, squad, 0, sharded=True),
        "dpr-tiny-projected": lambda: dpr_tiny("dpr-tiny-projected", args.minilm, squad, 48, sharded=False),
        "tokens": lambda: token_golden(args.minilm, squad),
    }
    if args.mpnet:
        jobs["mpnet"] = lambda: pretrained("mpnet", args.mpnet, squad, 16)
        jobs["mpnet-tiny"] = lambda: mpnet_tiny(args.mpnet, squad)
    with torch.no_grad():
        for name, job in jobs.items():
            if not args.only or name in args.only:
                job()


if __name__ == "__main__":
    main()
