"""PyTorch and transformers on a GPU: the work of bench/src/bin/gpu_bench, of random weights and made-up token ids.

    python tests/bench/gpu_peer.py peaks
    python tests/bench/gpu_peer.py encode SIZE f32|f16|bf16 ROWS TOKENS SECONDS
    python tests/bench/gpu_peer.py train SIZE f32|f16|bf16 QUESTIONS TOKENS STEPS
    python tests/bench/gpu_peer.py search ROWS DIM QUESTIONS

f32 multiplies in full single precision, not in TF32. `peaks` measures the card: products of square matrices, and a copy
within its memory. Prints one JSON object on a line.
"""

import json
import statistics
import sys
import time

import torch

QUESTION_TOKENS = 16
WARM_UP = 2
K = 100
SIZES = {"tiny": (2, 128, 2), "minilm": (6, 384, 12), "base": (12, 768, 12)}
FORMATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def sync():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def seconds_of(work, rounds):
    work()
    sync()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        sync()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def operations(size, tokens):
    layers, hidden, _ = SIZES[size]
    return layers * (24 * hidden * hidden + 4 * tokens * hidden)


def model(size, train):
    import transformers

    layers, hidden, heads = SIZES[size]
    config = transformers.BertConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    built = transformers.BertModel(config, add_pooling_layer=False).to(DEVICE)
    return built.train() if train else built.eval()


def texts(rows, tokens):
    return torch.randint(1000, 30522, (rows, tokens))


def peaks():
    found = {}
    side = 8192 if DEVICE == "cuda" else 1024
    for name, format in FORMATS.items():
        a, b = (torch.randn(side, side, device=DEVICE, dtype=format) for _ in range(2))
        found[f"{name}_teraflops"] = 2 * side**3 / seconds_of(lambda: a @ b, 10) / 1e12
    a = torch.randn(side * 64, 1024, device=DEVICE)
    b = torch.empty_like(a)
    found["copy_gb_per_second"] = 2 * a.nbytes / seconds_of(lambda: b.copy_(a), 10) / 1e9
    return found


def encode(size, precision, rows, tokens, seconds):
    rows, tokens, seconds = int(rows), int(tokens), float(seconds)
    net = model(size, False).to(FORMATS[precision])
    encoded = 0
    with torch.inference_mode():
        for _ in range(WARM_UP):
            net(input_ids=texts(rows, tokens).to(DEVICE)).last_hidden_state[:, 0].float().cpu()
        start = time.perf_counter()
        queued = net(input_ids=texts(rows, tokens).to(DEVICE)).last_hidden_state[:, 0].float()
        while time.perf_counter() - start < seconds:
            following = net(input_ids=texts(rows, tokens).to(DEVICE)).last_hidden_state[:, 0].float()
            queued.cpu()
            queued = following
            encoded += rows
        speed = encoded / (time.perf_counter() - start)
    return {"passages_per_second": speed, "teraflops": speed * tokens * operations(size, tokens) / 1e12}


def train(size, precision, questions, tokens, steps):
    questions, tokens, steps = int(questions), int(tokens), int(steps)
    nets = [model(size, True), model(size, True)]
    parameters = [parameter for net in nets for parameter in net.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, weight_decay=0.0)
    scaler = torch.amp.GradScaler(DEVICE, enabled=precision == "f16")
    batches = [texts(questions, min(QUESTION_TOKENS, tokens)).to(DEVICE), texts(2 * questions, tokens).to(DEVICE)]
    times = []
    for number in range(steps + WARM_UP):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=FORMATS[precision], enabled=precision != "f32"):
            vectors = [net(input_ids=ids).last_hidden_state[:, 0] for net, ids in zip(nets, batches)]
        scores = vectors[0].float() @ vectors[1].float().T
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(questions, device=DEVICE))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, 2.0)
        scaler.step(optimizer)
        scaler.update()
        sync()
        if number >= WARM_UP:
            times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    work = 2 * questions * tokens * operations(size, tokens)
    work += questions * QUESTION_TOKENS * operations(size, QUESTION_TOKENS)
    return {
        "seconds_a_step": seconds,
        "questions_per_second": questions / seconds,
        "teraflops": 3 * work / seconds / 1e12,
        "last_loss": loss.item(),
    }


def search(rows, dim, questions):
    rows, dim, questions = int(rows), int(dim), int(questions)
    matrix = torch.randn(rows, dim, device=DEVICE)
    asked = torch.randn(questions, dim)

    def found():
        return torch.topk(asked.to(DEVICE) @ matrix.T, K, dim=1).indices.cpu()

    seconds = seconds_of(found, 5)
    return {"questions_per_second": questions / seconds, "teraflops": 2 * rows * dim * questions / seconds / 1e12}


def main():
    parts = {"peaks": peaks, "encode": encode, "train": train, "search": search}
    if len(sys.argv) < 2 or sys.argv[1] not in parts:
        sys.exit(__doc__)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    answer = parts[sys.argv[1]](*sys.argv[2:])
    if DEVICE == "cuda":
        answer["peak_device_mib"] = torch.cuda.max_memory_allocated() >> 20
    precision = next((argument for argument in sys.argv[2:] if argument in FORMATS), None)
    about = {"part": sys.argv[1], "device": name, "torch": torch.__version__, "precision": precision}
    print(json.dumps({**about, **answer}))


if __name__ == "__main__":
    main()
