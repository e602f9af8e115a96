"""Training speed of PyTorch and transformers on made-up token ids, as bench/src/bin/train_throughput.rs makes them.

    python tests/bench/train_peer.py HF_DIR f32|bf16 [BATCH] [PASSAGE_TOKENS] [STEPS] [THREADS]

One BERT for questions and passages, mean pooling, length 1, NLL over the batch, dropout 0.1, AdamW, clipping. bf16 is
autocast with eager attention, which is faster on a CPU than PyTorch's fused one. Prints
{"questions_per_second", "peak_mib"}: the median over the steps, the first of which does not count.
"""

import json
import resource
import statistics
import sys
import time

import torch
import transformers

QUESTION_TOKENS = 16


def main():
    precision, given = sys.argv[2], sys.argv[3:]
    if precision not in ("f32", "bf16"):
        sys.exit(f"precision {precision}: say f32 or bf16")
    batch, tokens, steps, threads = [
        int(given[i]) if i < len(given) else default for i, default in enumerate([16, 156, 5, 2])
    ]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    attention = {"attn_implementation": "eager"} if precision == "bf16" else {}
    model = transformers.BertModel.from_pretrained(sys.argv[1], add_pooling_layer=False, **attention).float().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0)
    questions = torch.randint(1000, model.config.vocab_size, (batch, QUESTION_TOKENS))
    passages = torch.randint(1000, model.config.vocab_size, (2 * batch, tokens))

    def encode(ids):
        mask = torch.ones_like(ids)
        mean = model(input_ids=ids, attention_mask=mask).last_hidden_state.mean(1)
        return torch.nn.functional.normalize(mean, dim=-1)

    times = []
    for number in range(steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            vectors = [encode(questions), encode(passages)]
        scores = vectors[0].float() @ vectors[1].float().T / 0.05
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        seconds = time.perf_counter() - start
        print(f"step {number}: loss {float(loss.detach()):.4f}, {seconds:.2f} s", file=sys.stderr)
        if number:
            times.append(seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({"questions_per_second": batch / statistics.median(times), "peak_mib": peak}))


if __name__ == "__main__":
    main()
