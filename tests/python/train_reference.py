"""Writes tests/fixtures/train/golden.json.gz: what PyTorch makes of one training step, and of twenty.

    python tests/python/train_reference.py

The encoders are transformers' own (dpr-tiny/ and mpnet-tiny/ of the fixtures), dropout off, in f64; the texts are those
of dpr-tiny/golden.json. Everything is fixed, so that a second run with the same library versions writes the same bytes.
Needs torch, transformers, safetensors, numpy.

A case of `cases` is one batch through one objective: `loss`, and the gradient of every parameter under its canonical
name, `[question or passage encoder][name]`, as base64 of little-endian f16 after division by `scale`. Questions and passages
are token ids; question `i` is answered by passage `positive[i]`; the pairs `masked` (question, passage) do not count.

  nll      mean over the questions of -log softmax(scores)[positive]          (paper, equation 2)
  triplet  mean over all pairs of a question and a negative of max(0, 1 - score(positive) + score(negative))

  dot      q . p
  l2       -|q - p|
  cosine   q . p / (|q| |p|)

With `matryoshka`, sizes of nested vectors (Kusupati et al. 2022), the loss is the mean over whole vectors and their first
numbers, as many as each size says, which are scaled to length 1 where whole vectors are.

`run` is twenty steps of AdamW over four batches in turn: warm-up, linear decay, clipping, weight decay on all but biases and
LayerNorms; `losses` are those before each step, `norms` those of the gradients before clipping.
"""

import base64
import gzip
import json
import pathlib

import numpy
import torch
import transformers

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
OUT = FIXTURES / "train" / "golden.json.gz"
MAX_TOKENS = 64

PREFIXES = ["question_encoder.bert_model.", "ctx_encoder.bert_model."]


def canonical(name):
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def question_ids(tokenizer, text):
    return tokenizer(text, truncation=True, max_length=MAX_TOKENS)["input_ids"]


def passage_ids(tokenizer, passage):
    if not passage["title"]:
        return question_ids(tokenizer, passage["text"])
    pair = tokenizer(passage["title"], passage["text"], truncation="longest_first", max_length=MAX_TOKENS)
    return pair["input_ids"]


def vectors(model, rows, pad):
    """[rows, dim]: CLS for DPR; for MPNet the mean over the tokens, of length 1."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    if model.config.model_type == "mpnet":
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        keep = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * keep).sum(1) / keep.sum(1)
        return mean / mean.norm(dim=-1, keepdim=True)
    return model(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)).pooler_output


def similarity(kind, q, p):
    if kind == "dot":
        return q @ p.T
    if kind == "cosine":
        return torch.nn.functional.cosine_similarity(q[:, None], p[None], dim=-1)
    return -(q[:, None] - p[None]).norm(dim=-1)


def loss_of(batch, objective, kind, temperature, q, p):
    scores = similarity(kind, q, p) / temperature
    positive = torch.tensor(batch["positive"])
    masked = torch.zeros_like(scores, dtype=torch.bool)
    for question, passage in batch["masked"]:
        masked[question, passage] = True
    if objective == "nll":
        return torch.nn.functional.cross_entropy(scores.masked_fill(masked, -torch.inf), positive)
    is_positive = torch.nn.functional.one_hot(positive, scores.shape[1]).bool()
    right = scores.gather(1, positive[:, None])
    hinge = torch.relu(1.0 - right + scores)
    return hinge[~(is_positive | masked)].mean()


def packed(gradient):
    values = gradient.detach().numpy()
    scale = float(numpy.abs(values).max()) or 1.0
    data = base64.b64encode((values / scale).astype("<f2").tobytes()).decode()
    return {"scale": scale, "norm": float(numpy.linalg.norm(values)), "data": data}


def load(kind):
    if kind == "mpnet":
        model = transformers.MPNetModel.from_pretrained(FIXTURES / "mpnet-tiny", add_pooling_layer=False)
        return [model.double().eval()]
    question = transformers.DPRQuestionEncoder.from_pretrained(FIXTURES / "dpr-tiny/question")
    context = transformers.DPRContextEncoder.from_pretrained(FIXTURES / "dpr-tiny/ctx")
    return [question.double().eval(), context.double().eval()]


def parameters(model):
    return [(canonical(name), p) for name, p in model.named_parameters() if "pooler" not in name]


def batches(kind, golden):
    directory = FIXTURES / ("mpnet-tiny" if kind == "mpnet" else "dpr-tiny/question")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    questions = [question_ids(tokenizer, text) for text in golden["questions"]]
    passages = [passage_ids(tokenizer, passage) for passage in golden["passages"]]
    made = []
    for number in range(4):
        asked = [(number * 5 + i) % len(questions) for i in range(6)]
        right = [(number * 3 + i) % len(passages) for i in range(6)]
        hard = [(number * 3 + 6 + i) % len(passages) for i in range(6)]
        hard[2] = right[0]  # a false negative: what answers the first question
        columns = right + hard
        made.append(
            {
                "questions": [questions[i] for i in asked],
                "passages": [passages[i] for i in columns],
                "positive": list(range(6)),
                "masked": [
                    [q, p] for q in range(6) for p in range(12) if p != q and columns[p] == columns[q]
                ],
            }
        )
    return made


def step_loss(models, pad, batch, objective, kind, temperature, matryoshka=()):
    q = vectors(models[0], batch["questions"], pad)
    p = vectors(models[-1], batch["passages"], pad)
    losses = [loss_of(batch, objective, kind, temperature, q, p)]
    for size in matryoshka:
        nested = [side[:, :size] for side in (q, p)]
        if models[0].config.model_type == "mpnet":
            nested = [torch.nn.functional.normalize(side, dim=-1) for side in nested]
        losses.append(loss_of(batch, objective, kind, temperature, *nested))
    return torch.stack(losses).mean()


def cases(golden):
    for name, objective, kind, temperature, matryoshka in [
        ("dpr", "nll", "dot", 1.0, []),
        ("dpr", "nll", "l2", 1.0, []),
        ("dpr", "nll", "cosine", 0.05, []),
        ("dpr", "triplet", "dot", 1.0, []),
        ("mpnet", "nll", "dot", 1.0, []),
        ("dpr", "nll", "cosine", 0.05, [12]),
        ("mpnet", "nll", "dot", 0.05, [16, 8]),
    ]:
        models = load(name)
        batch = batches(name, golden)[0]
        pad = models[0].config.pad_token_id
        loss = step_loss(models, pad, batch, objective, kind, temperature, matryoshka)
        loss.backward()
        yield {
            "model": name,
            "objective": objective,
            "similarity": kind,
            "temperature": temperature,
            "matryoshka": matryoshka,
            "batch": batch,
            "loss": float(loss),
            "gradients": [{n: packed(p.grad) for n, p in parameters(model)} for model in models],
        }


def run(golden):
    models, given = load("dpr"), batches("dpr", golden)
    steps, warm_up, rate, clip, decay = 20, 5, 2e-3, 1.0, 0.01
    every = [pair for model in models for pair in parameters(model)]
    plain = [p for name, p in every if name.endswith(".bias") or "LayerNorm" in name]
    decayed = [p for name, p in every if not (name.endswith(".bias") or "LayerNorm" in name)]
    groups = [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.999), eps=1e-8)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, warm_up, steps)
    losses, norms = [], []
    for step in range(steps):
        optimizer.zero_grad()
        loss = step_loss(models, 0, given[step % 4], "nll", "dot", 1.0)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_([p for _, p in every], clip)))
        optimizer.step()
        schedule.step()
        losses.append(float(loss))
    return {
        "batches": given,
        "learning_rate": rate,
        "warm_up": warm_up,
        "clip": clip,
        "weight_decay": decay,
        "losses": losses,
        "norms": norms,
    }


def main():
    torch.set_num_threads(1)
    golden = json.loads((FIXTURES / "dpr-tiny/golden.json").read_text(encoding="utf-8"))
    value = {
        "about": "Written by tests/python/train_reference.py; texts from SQuAD v1.1 dev, CC BY-SA 4.0.",
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "cases": list(cases(golden)),
        "run": run(golden),
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))
    print(f"{OUT.relative_to(FIXTURES)}: {OUT.stat().st_size:,} bytes")
    for case in value["cases"]:
        print(case["model"], case["objective"], case["similarity"], case["matryoshka"], case["loss"])
    print([round(loss, 4) for loss in value["run"]["losses"]], [round(n, 2) for n in value["run"]["norms"]])


if __name__ == "__main__":
    main()
