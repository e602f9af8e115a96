"""Writes tests/fixtures/train/reader.json.gz: what PyTorch makes of one training step of a reader.

    python tests/python/reader_reference.py

The reader is transformers' own DPRReader with the weights of fixtures/readers/dpr, dropout off, in f64. The questions, passages
and answers are made of the words of fixtures/readers/cases.json. Everything is fixed, so that a second run with the same library
versions writes the same bytes. Needs torch, transformers, safetensors, numpy.

An item of `questions` has the token ids of its inputs, `[CLS] question [SEP] title [SEP] text`, that of its positive first, and
`spans`, the first and last tokens of the answers in the positive, found here by comparing lists of token ids of the text.

  loss       mean over the questions of
             -log softmax(selection over its inputs)[positive]
             -log sum over the spans (s, t) of softmax(start)[s] * softmax(end)[t]         (Karpukhin et al. 2020, section 6.1)
  gradients  of every parameter under its canonical name, as base64 of little-endian f32
"""

import base64
import gzip
import json

import numpy
import torch
import transformers

import golden
from cross_encoders import BREAD, CATS, RIVERS

FIXTURES = golden.FIXTURES
OUT = FIXTURES / "train" / "reader.json.gz"
READER = FIXTURES / "readers" / "dpr"
MAX_TOKENS = 60

# Question, answers, then (title, text), the positive first; the numbers of passages differ, and an answer stands at several
# places, in two forms, or at one.
QUESTIONS = [
    ("where does the rhine rise", ["the Alps", "Alps"], [("Rhine", RIVERS), ("Cat", CATS), ("", BREAD)]),
    ("when do cats hunt", ["dusk"], [("Cat", CATS), ("Rhine", RIVERS)]),
    ("what is bread made of", ["flour", "water", "salt"], [("Bread", BREAD), ("", CATS), ("R", RIVERS), ("Bread", "Flour.")]),
    ("the sea", ["sea"], [("", "to the sea and the sea, north of the sea.")]),
]


def canonical(name):
    return name.removeprefix("span_predictor.encoder.bert_model.").removeprefix("span_predictor.")


def inputs_of(tokenizer, question, title, text):
    """The ids of an input, and where those of the text begin."""
    head = tokenizer([question], [title])["input_ids"][0]
    body = tokenizer([text], add_special_tokens=False)["input_ids"][0]
    return (head + body)[:MAX_TOKENS], len(head)


def spans_of(tokenizer, ids, begin, answers):
    found = set()
    for answer in answers:
        wanted = tokenizer([answer], add_special_tokens=False)["input_ids"][0]
        for first in range(begin, len(ids) - len(wanted) + 1):
            if ids[first : first + len(wanted)] == wanted:
                found.add((first, first + len(wanted) - 1))
    assert found, answers
    return sorted(found)


def main():
    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(READER)
    model = transformers.DPRReader.from_pretrained(READER, attn_implementation="eager", dtype=torch.float64).eval()
    items, loss = [], torch.zeros((), dtype=torch.float64)
    for question, answers, passages in QUESTIONS:
        made = [inputs_of(tokenizer, question, title, text) for title, text in passages]
        spans = spans_of(tokenizer, *made[0], answers)
        selection = []
        for number, (ids, _) in enumerate(made):
            out = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
            selection.append(out.relevance_logits.reshape(-1)[0])
            if number == 0:
                start = torch.softmax(out.start_logits[0], -1)
                end = torch.softmax(out.end_logits[0], -1)
                marginal = sum(start[s] * end[t] for s, t in spans)
        selected = torch.softmax(torch.stack(selection), -1)[0]
        loss = loss - torch.log(selected) - torch.log(marginal)
        items.append({"question": question, "answers": answers, "passages": passages,
                      "ids": [ids for ids, _ in made], "spans": spans})
    loss = loss / len(QUESTIONS)
    loss.backward()

    def packed(gradient):
        values = gradient.detach().numpy().astype("<f4")
        return {"shape": list(values.shape), "data": base64.b64encode(values.tobytes()).decode()}

    gradients = {canonical(n): packed(p.grad) for n, p in model.named_parameters() if p.grad is not None}
    value = {
        "about": "Written by tests/python/reader_reference.py.",
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "max_tokens": MAX_TOKENS,
        "questions": items,
        "loss": loss.item(),
        "gradients": gradients,
    }
    OUT.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))
    largest = max(float(numpy.abs(p.grad.numpy()).max()) for p in model.parameters() if p.grad is not None)
    print(f"{OUT.relative_to(FIXTURES)}: {OUT.stat().st_size:,} bytes, loss {loss.item()}, {len(gradients)} gradients")
    print(f"largest gradient {largest:.4f}; spans {[item['spans'] for item in items]}")


if __name__ == "__main__":
    main()
