"""Loads model directories that `dpr import` wrote in Python's transformers, and encodes fixtures' texts with them.

    python tests/python/roundtrip.py MODEL_DIR GOLDEN.json [MODEL_DIR GOLDEN.json ...] > report.json

BERT encoders are loaded as DPRQuestionEncoder and DPRContextEncoder, MPNet ones as MPNetModel. The process fails when
a tensor is missing, unexpected or misshapen, or when the vectors leave what GOLDEN.json (of tests/fixtures) says. Where
the model projects, inner products are held against the golden ones instead of the vectors: orthonormal rows keep them.
Report: a list of {"model", "encoders": {"question", "passage"}, "min_cosine" (null when projected),
"max_product_difference" (relative to the mean square norm), "question_vectors": [base64 LE f32], "passage_vectors"}.
"""

import base64
import json
import pathlib
import sys

import numpy
import torch
import transformers

from golden import load_tokenizer_file, packed, passage_ids, question_ids

CLASSES = {
    ("bert", "question"): transformers.DPRQuestionEncoder,
    ("dpr", "question"): transformers.DPRQuestionEncoder,
    ("bert", "passage"): transformers.DPRContextEncoder,
    ("dpr", "passage"): transformers.DPRContextEncoder,
    ("mpnet", "question"): transformers.MPNetModel,
    ("mpnet", "passage"): transformers.MPNetModel,
}


class Encoder:
    """One encoder of a model directory: tokenizer, transformers model, and the manifest's pooling."""

    def __init__(self, directory, role, manifest):
        config = json.loads((directory / "config.json").read_text())
        kind = CLASSES[config["model_type"], role]
        extra = {"add_pooling_layer": False} if kind is transformers.MPNetModel else {}
        self.model, report = kind.from_pretrained(
            directory, output_loading_info=True, attn_implementation="eager", **extra
        )
        self.model.eval()
        self.pooling, self.normalize = find(manifest, "pooling"), find(manifest, "normalize")
        self.tokenizer = load_tokenizer_file(directory / "tokenizer.json")
        wrong = {key: sorted(map(str, names)) for key, names in report.items() if names}
        if kind is transformers.MPNetModel:  # which has no place for a projection; products are compared without it
            keys = [key for key in wrong.pop("unexpected_keys", []) if "encode_proj" not in key]
            wrong.update({"unexpected_keys": keys} if keys else {})
        self.facts = {"directory": directory.name, "class": kind.__name__}
        if wrong:
            raise SystemExit(f"{directory}: {kind.__name__} does not take these tensors as they are: {wrong}")

    def vector(self, ids):
        row = torch.tensor([ids])
        mask = torch.ones_like(row)
        if isinstance(self.model, transformers.MPNetModel):
            hidden, project = self.model(input_ids=row, attention_mask=mask).last_hidden_state[0], None
        else:
            inner = getattr(self.model, "question_encoder", None) or self.model.ctx_encoder
            outputs = inner.bert_model(input_ids=row, attention_mask=mask, token_type_ids=torch.zeros_like(row))
            hidden = outputs.last_hidden_state[0]
            project = inner.encode_proj if inner.projection_dim > 0 else None
        pooled = hidden.mean(dim=0) if self.pooling == "mean" else hidden[0]
        pooled = project(pooled) if project is not None else pooled
        return pooled / pooled.norm() if self.normalize else pooled


def find(value, key):
    """The first value under `key` anywhere in the manifest, so that this check does not follow its layout."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        value = list(value.values())
    for item in value if isinstance(value, list) else []:
        found = find(item, key)
        if found is not None:
            return found
    return None


def unpack(rows):
    return numpy.stack([numpy.frombuffer(base64.b64decode(row), "<f4") for row in rows]).astype("f8")


def compare(ours, golden):
    """(lowest cosine or None when the widths differ, largest difference of inner products over mean square norm)."""
    scale = (golden**2).sum(axis=1).mean()
    products = float(numpy.abs(ours @ ours.T - golden @ golden.T).max() / scale)
    if ours.shape != golden.shape:
        return None, products
    norms = numpy.linalg.norm(ours, axis=1) * numpy.linalg.norm(golden, axis=1)
    return float(((ours * golden).sum(axis=1) / norms).min()), products


def check(model_dir, golden_path):
    """The report of one model directory; SystemExit when it is not what the fixture says."""
    root, golden = pathlib.Path(model_dir), json.loads(pathlib.Path(golden_path).read_text())
    manifest = json.loads((root / "model.json").read_text())
    question = Encoder(root / "question_encoder", "question", manifest)
    passage = Encoder(root / "passage_encoder", "passage", manifest) if (root / "passage_encoder").is_dir() else question
    limit = golden["max_tokens"]
    questions = [packed(question.vector(question_ids(question.tokenizer, q, limit))) for q in golden["questions"]]
    passages = [packed(passage.vector(passage_ids(passage.tokenizer, p, limit))) for p in golden["passages"]]
    pairs = (
        compare(unpack(questions), unpack(golden["question_vectors"])),
        compare(unpack(passages), unpack(golden["passage_vectors"])),
    )
    cosine = min((c for c, _ in pairs if c is not None), default=None)
    products = max(difference for _, difference in pairs)
    if products > 2e-4 or (cosine is not None and cosine < 0.99999):
        raise SystemExit(
            f"{root}: transformers does not find {golden_path}'s vectors in it: lowest cosine {cosine} (limit 0.99999), "
            f"largest difference of inner products {products:.2e} (limit 2e-4)"
        )
    return {
        "model": str(root),
        "encoders": {"question": question.facts, "passage": passage.facts},
        "min_cosine": cosine,
        "max_product_difference": products,
        "question_vectors": questions,
        "passage_vectors": passages,
    }


if __name__ == "__main__":
    if len(sys.argv) < 3 or len(sys.argv) % 2 == 0:
        raise SystemExit(__doc__)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with torch.no_grad():
        json.dump([check(*pair) for pair in zip(sys.argv[1::2], sys.argv[2::2])], sys.stdout)
