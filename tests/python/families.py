"""Writes tests/fixtures/families: small random encoders of every family but BERT and MPNet (golden.py makes those), as
their authors publish them, and the vectors that Python's transformers makes with them.

    python tests/python/families.py SQUAD.json [--only NAME ...]

SQUAD.json is SQuAD v1.1 dev (CC BY-SA 4.0, plain or .gz: web-demo/corpus holds it). Each directory is written first and
then read by `AutoModel.from_pretrained`, so that names and keys are checked with the numbers. Needs the packages of
requirements/tests.in, and sentencepiece 0.2.3 and babel 2.18.0; a second run with the same versions writes the same bytes.

  distilbert    names and keys of its own, no token types
  xlm-roberta   Unigram tokenizer, positions from the pad id on, one token type; saved with its head of pre-training
  roberta       byte-level tokenizer with [CLS] and [SEP], as some RoBERTa models have
  electra       the discriminator, with the prefix and the head of its pre-training
  modernbert    two rotary bases, GeGLU, no biases, LayerNorm first, local attention of 16 before and 16 after
  nomic-bert    one rotary base, SwiGLU, the keys and names of nomic-ai's files

Weights are in half precision, which both sides read into single precision.
"""

import argparse
import json
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file

import golden
from random_models import config_of, randomize
from tokenizer_reference import byte_level, classic, unigram

FIXTURES = golden.FIXTURES / "families"
QUESTIONS, PASSAGES = 16, 12
MAX_TOKENS = 96
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 128,
}


def distilbert(vocab):
    config = transformers.DistilBertConfig(
        vocab_size=vocab, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=128
    )
    model = randomize(transformers.DistilBertModel(config), 1)
    return config_of(config, "DistilBertModel"), model.state_dict()


def xlm_roberta(vocab):
    config = transformers.XLMRobertaConfig(
        vocab_size=vocab, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2, **SIZES
    )
    model = randomize(transformers.XLMRobertaForMaskedLM(config), 2)
    tensors = {k: v for k, v in model.state_dict().items() if k != "lm_head.decoder.weight"}
    return config_of(config, "XLMRobertaForMaskedLM"), tensors


def roberta(vocab):
    config = transformers.RobertaConfig(
        vocab_size=vocab, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2, **SIZES
    )
    model = randomize(transformers.RobertaModel(config), 3)
    return config_of(config, "RobertaModel"), model.state_dict()


def electra(vocab):
    config = transformers.ElectraConfig(vocab_size=vocab, embedding_size=32, **SIZES)
    model = randomize(transformers.ElectraForPreTraining(config), 4)
    return config_of(config, "ElectraForPreTraining"), model.state_dict()


def modernbert(vocab):
    sizes = {**SIZES, "num_hidden_layers": 4}
    keys = {
        "global_attn_every_n_layers": 3,
        "local_attention": 32,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
    }
    config = transformers.ModernBertConfig(
        vocab_size=vocab, pad_token_id=1, cls_token_id=4, sep_token_id=5, bos_token_id=4, eos_token_id=5, **sizes, **keys
    )
    model = randomize(transformers.ModernBertModel(config), 5)
    fields = config_of(config, "ModernBertModel", drop=("layer_types", "rope_parameters"), **keys)
    return fields, model.state_dict()


def nomic_bert(vocab):
    config = transformers.NomicBertConfig(vocab_size=vocab, **SIZES)
    model = randomize(transformers.NomicBertModel(config), 6)
    fields = {
        "architectures": ["NomicBertModel"],
        "model_type": "nomic_bert",
        "activation_function": "swiglu",
        "causal": False,
        "layer_norm_epsilon": 1e-12,
        "mlp_fc1_bias": False,
        "mlp_fc2_bias": False,
        "n_embd": 32,
        "n_head": 4,
        "n_inner": 48,
        "n_layer": 2,
        "n_positions": 128,
        "pad_token_id": 0,
        "prenorm": False,
        "qkv_proj_bias": False,
        "rotary_emb_base": 1000,
        "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False,
        "rotary_scaling_factor": None,
        "type_vocab_size": 2,
        "use_rms_norm": False,
        "vocab_size": vocab,
    }
    return fields, nomic_names(model.state_dict()), model


def nomic_names(state):
    """The tensors under the names of nomic-ai's files, where query, key and value are one."""
    renamed = {
        "self_attn.o_proj": "attn.out_proj",
        "mlp.up_proj": "mlp.fc11",
        "mlp.gate_proj": "mlp.fc12",
        "mlp.down_proj": "mlp.fc2",
        "post_attention_layernorm": "norm1",
        "post_mlp_layernorm": "norm2",
        "embeddings.LayerNorm": "emb_ln",
    }
    tensors = {}
    for name, tensor in state.items():
        if ".self_attn.q_proj." in name:
            parts = [state[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            name, tensor = name.replace("self_attn.q_proj", "attn.Wqkv"), torch.cat(parts)
        elif ".k_proj." in name or ".v_proj." in name:
            continue
        for old, new in renamed.items():
            name = name.replace(old, new)
        tensors[f"encoder.{name}" if name.startswith("layers.") else name] = tensor
    return tensors


def gradients(model, rows, encode):
    """By parameter, the length of the gradient of a loss and its product with cos(0), cos(1), …

    The loss is the sum of the rows' vectors times cos(row + column).
    """
    with torch.enable_grad():
        loss = sum((encode(ids) * torch.cos(torch.arange(32.0) + row)).sum() for row, ids in enumerate(rows))
        loss.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    if model.config.model_type == "nomic_bert":
        found = nomic_names(found)
    flat = {name: gradient.flatten().double() for name, gradient in found.items()}
    summed = {name: (g * torch.cos(torch.arange(len(g), dtype=torch.double))).sum() for name, g in flat.items()}
    return {name: [flat[name].norm().item(), summed[name].item()] for name in sorted(flat)}


def vector(model, ids, token_types):
    """The mean of the last hidden states, of length 1."""
    row = torch.tensor([ids])
    extra = {"token_type_ids": torch.zeros_like(row)} if token_types else {}
    mean = model(input_ids=row, attention_mask=torch.ones_like(row), **extra).last_hidden_state[0].mean(dim=0)
    return mean / mean.norm()


def write(name, make, tokenizer, squad):
    """One directory: tokenizer.json, config.json, model.safetensors and golden.json."""
    root = FIXTURES / name
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    if isinstance(tokenizer, pathlib.Path):
        texts = [q for _, _, questions in squad[:4] for q in questions]
        golden.shrink_tokenizer(tokenizer, root, texts, 400)
        (root / "tokenizer_config.json").unlink()
    else:
        text = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
        (root / "tokenizer.json").write_text(text)
    fast = golden.load_tokenizer_file(root / "tokenizer.json")
    fields, tensors, *native = make(len(fast))
    (root / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
    halves = {k: v.half().contiguous() for k, v in tensors.items() if v.is_floating_point()}
    save_file(halves, root / "model.safetensors", metadata={"format": "pt"})
    # transformers reads nomic-ai's names, but its own keys.
    own = {"config": native[0].config} if native else {}
    model, seen = transformers.AutoModel.from_pretrained(
        root, attn_implementation="eager", dtype=torch.float32, output_loading_info=True, **own
    )
    model.eval()
    missing = [key for key in seen["missing_keys"] if not key.startswith("pooler.")]
    assert not missing and not seen["mismatched_keys"], (name, seen)
    for same in native:  # a file in other names than the library's own: what was read is what was written
        for key, value in same.state_dict().items():
            assert torch.equal(value, model.state_dict()[key]), (name, key)
    token_types = name in ("electra", "nomic-bert")
    encode = lambda ids: vector(model, ids, token_types)
    facts = {"model": name, "pooling": "mean", "normalize": True, "dim": 32}
    questions, passages = golden.pick_questions(squad, QUESTIONS), golden.pick_passages(squad, PASSAGES)
    rows = [golden.question_ids(fast, text, MAX_TOKENS) for text in questions[-4:]]
    facts["gradients"] = gradients(model, rows, encode)
    golden.write_golden(root / "golden.json", facts, fast, questions, passages, MAX_TOKENS, encode, encode)
    print(f"{name}: {sum(path.stat().st_size for path in root.iterdir()):,} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("squad")
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    squad = golden.read_squad(args.squad)
    corpus = [paragraph for _, paragraphs, _ in squad[::8] for paragraph in paragraphs[:20]]
    pieces = golden.FIXTURES / "dpr-tiny" / "question"
    bytes_of_text = byte_level(corpus, 500)
    jobs = {
        "distilbert": (distilbert, pieces),
        "xlm-roberta": (xlm_roberta, unigram(corpus, 500, table=False)),
        "roberta": (roberta, classic(bytes_of_text)),
        "electra": (electra, pieces),
        "modernbert": (modernbert, classic(bytes_of_text)),
        "nomic-bert": (nomic_bert, pieces),
    }
    with torch.no_grad():
        for name, (make, tokenizer) in jobs.items():
            if not args.only or name in args.only:
                write(name, make, tokenizer, squad)


if __name__ == "__main__":
    main()
