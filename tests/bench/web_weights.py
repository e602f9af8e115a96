"""What narrower weights of a page cost: bytes, cosines and ranks of `dpr export-web`'s files beside single precision.

    python tests/bench/web_weights.py --model data/model/ --vectors data/vectors/ --squad web-demo/corpus/squad-dev-v1.1.json.gz

The files are read by what docs/formats.md says of them and nothing else, and computed by transformers, so that this is a
second implementation of the formats. Questions are those of the SQuAD file; a question's passage is the paragraph that it
was asked about. The model is a BERT with mean pooling and a projection, as `cargo xtask demo` makes it.
"""

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

PREFIXES = ("question_encoder.", "bert_model.")
PROJECTION = "encode_proj."


def opened(path):
    """Returns the tensors of a weights file in single precision, by name."""
    stored = load_file(path)
    tensors = {}
    for name, values in stored.items():
        if name.endswith((".scale", ".steps")):
            continue
        if f"{name}.steps" in stored:
            steps = stored[f"{name}.steps"].astype(np.float32)
            low, high = values & 15, values >> 4
            codes = np.stack([low, high], axis=-1).reshape(values.shape[0], -1).astype(np.float32) - 8
            groups = codes.reshape(*steps.shape, -1) * steps[..., None]
            values = groups.reshape(codes.shape) * stored[f"{name}.scale"][:, None]
        elif f"{name}.scale" in stored:
            values = values.astype(np.float32) * stored[f"{name}.scale"][:, None]
        for prefix in PREFIXES:
            name = name.removeprefix(prefix)
        tensors[name] = values.astype(np.float32)
    return tensors


def vectors(tensors, config, questions, tokenizer):
    """Returns the vectors of the questions, `[questions, dim]`."""
    settings = {key: value for key, value in config.items() if key not in ("architectures", "dpr", "model_type")}
    model = BertModel(BertConfig(**settings), add_pooling_layer=False).eval()
    body = {name: torch.from_numpy(value) for name, value in tensors.items() if not name.startswith(PROJECTION)}
    found = model.load_state_dict(body, strict=False)
    assert not found.unexpected_keys and not set(found.missing_keys) - {"embeddings.position_ids"}, found
    weight, bias = tensors.get(f"{PROJECTION}weight"), tensors.get(f"{PROJECTION}bias", 0)
    found = []
    with torch.no_grad():
        for at in range(0, len(questions), 64):
            batch = tokenizer.encode_batch(questions[at : at + 64])
            ids, mask = (torch.tensor([getattr(text, field) for text in batch]) for field in ("ids", "attention_mask"))
            states = model(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(-1).float()
            means = ((states * weights).sum(1) / weights.sum(1)).numpy()
            found.append(means if weight is None else means @ weight.T + bias)
    found = np.concatenate(found)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser()
    for name in ("model", "vectors", "squad"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    encoder = arguments.model / "question_encoder"
    config = json.loads((encoder / "config.json").read_text())
    tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(256)
    with gzip.open(arguments.squad, "rt") as file:
        paragraphs = [paragraph for article in json.load(file)["data"] for paragraph in article["paragraphs"]]
    questions = [(qa["question"].strip(), at) for at, paragraph in enumerate(paragraphs) for qa in paragraph["qas"]]
    gold = np.array([at for _, at in questions])
    dim = json.loads((arguments.vectors / "manifest.json").read_text())["dim"]
    passages = np.fromfile(arguments.vectors / "vectors.f32", dtype="<f4").reshape(-1, dim)
    assert len(passages) == len(paragraphs), f"{len(passages)} vectors of {len(paragraphs)} paragraphs"
    files = {"f32": encoder / "model.safetensors"}
    weights = json.loads((arguments.model / "web/web.json").read_text())["weights"]
    files |= {dtype: arguments.model / weights[dtype]["path"] for dtype in ("f16", "q8", "q4") if dtype in weights}
    # What a page downloads beside the weights.
    words = next((arguments.model / "web").glob("vocabulary.bin"), encoder / "tokenizer.json")
    words_packed = len(gzip.compress(words.read_bytes(), 9))
    print("        MB  gzip MB, with the tokenizer  least cosine  mean cosine  top-1  top-5  top-20  best of f32 first")
    exact = None
    for dtype, path in files.items():
        found = vectors(opened(path), config, [text for text, _ in questions], tokenizer)
        exact = found if exact is None else exact
        cosines = (found * exact).sum(1)
        scores, of_f32 = found @ passages.T, exact @ passages.T
        ranks = (scores > scores[np.arange(len(gold)), gold][:, None]).sum(1)
        tops = [100 * (ranks < k).mean() for k in (1, 5, 20)]
        same = 100 * (scores.argmax(1) == of_f32.argmax(1)).mean()
        packed = len(gzip.compress(path.read_bytes(), 9))
        print(
            f"{dtype}  {path.stat().st_size / 1e6:6.2f}  {packed / 1e6:7.2f}  {(packed + words_packed) / 1e6:18.2f}"
            f"  {cosines.min():12.4f}  {cosines.mean():11.5f}  {tops[0]:5.2f}  {tops[1]:5.2f}  {tops[2]:6.2f}  {same:17.1f}"
        )


if __name__ == "__main__":
    main()
