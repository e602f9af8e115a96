"""Writes tests/fixtures/torch: a small random pair of DPR encoders as torch.save writes them, and files that are refused.

    python tests/python/torch_weights.py

Weights and texts are made up from a fixed seed (the older format names storages by address, so those files differ from
run to run in their keys). Needs torch, transformers, tokenizers and safetensors. No file of
`refused/` is loaded here or anywhere: those that would run something would only print a line.

What is written:
  config.json, tokenizer.json  of all encoders
  question.safetensors, ctx.safetensors  the weights, under the names of facebook/dpr-*
  question.bin, ctx.bin        the same by torch.save (zip), with position_ids and a pooler, as facebook's files have
  question-legacy.bin, ctx-legacy.bin  the same in the format before PyTorch 1.6
  question-{f16,bf16,f64}.bin  the same in other types (question-f64.bin is legacy)
  question-views.bin, -views-legacy.bin  the same as parameters, transposed views, and slices of one storage
  question-protocol-{4,5}.bin  the same by pickle protocols 4 and 5
  question-no-crc.bin          the same without checksums
  sharded/                     the same in two files with their index
  golden.json                  texts, and their vectors by transformers
  refused/                     programs, modules, and layouts that weights do not have
"""

import json
import os
import pathlib
import pickle
import shutil
import string
import zipfile

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "torch"
SEED = 20200410
TEXTS = ["who won the game", "when was the war", "cats", "the cat sleeps most of the day and then is the dog who won"]


def tokenizer():
    """A BERT tokenizer of the special tokens, the letters and the words of TEXTS."""
    words = sorted({word for text in TEXTS for word in text.split()})
    letters = [form for letter in string.ascii_lowercase for form in (letter, "##" + letter)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *words]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    inner.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    inner.decoder = tokenizers.decoders.WordPiece()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    return inner


def save(name, value, **options):
    path = FIXTURES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path, **options)


def published(state, prefix):
    """The state_dict with the tensors that facebook's files have and no vector depends on."""
    state[f"{prefix}.bert_model.embeddings.position_ids"] = torch.arange(32).expand((1, -1))
    state[f"{prefix}.bert_model.pooler.dense.weight"] = torch.ones(8, 8)
    state[f"{prefix}.bert_model.pooler.dense.bias"] = torch.zeros(8)
    return state


def views(state):
    """The same numbers: matrices as transposed views, vectors as slices of one storage, one of them a parameter."""
    vectors = [name for name, tensor in state.items() if tensor.dim() == 1]
    together = torch.cat([state[name] for name in vectors])
    parts = dict(zip(vectors, together.split([len(state[name]) for name in vectors])))
    out = type(state)()
    for name, tensor in state.items():
        if name in parts:
            out[name] = torch.nn.Parameter(parts[name]) if name == vectors[0] else parts[name]
        else:
            out[name] = tensor.t().contiguous().t() if tensor.dim() == 2 else tensor
    return out


# A module without source: the older format would write the path of its file.
Net = type("Net", (torch.nn.Module,), {"__module__": "__main__"})


class Calls:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def refused(state):
    save("refused/system.bin", {"a": Calls(os.system, "echo this file ran a program")})
    save("refused/system-legacy.bin", Calls(os.system, "echo this file ran a program"), _use_new_zipfile_serialization=False)
    save("refused/eval.bin", {"a": Calls(eval, "print('this file ran a program')")}, pickle_protocol=4)
    save("refused/module.bin", Net())
    save("refused/module-legacy.bin", Net(), _use_new_zipfile_serialization=False)
    save("refused/sparse.bin", {"a": torch.eye(2).to_sparse()})
    save("refused/nested.bin", {"state_dict": {"a": torch.ones(2)}})
    save("refused/list.bin", [torch.ones(2)])
    # By pickle itself, which puts storages into the pickle as programs that load them.
    (FIXTURES / "refused/pickle.bin").write_bytes(pickle.dumps({"a": torch.ones(2)}, protocol=2))
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(FIXTURES / "refused/made.bin"))
    # Without the paths of the sources.
    rewritten("made.bin", "script.bin", lambda entry: not entry.filename.endswith(".debug_pkl"))
    save("refused/made.bin", {"a": torch.ones(4)})
    rewritten("made.bin", "compressed.bin", lambda entry: True, zipfile.ZIP_DEFLATED)
    (FIXTURES / "refused/made.bin").unlink()


def rewritten(source, target, keep, compression=None):
    """The archive with some of its entries, and with another compression if one is given."""
    folder = FIXTURES / "refused"
    with zipfile.ZipFile(folder / source) as old, zipfile.ZipFile(folder / target, "w") as new:
        for entry in filter(keep, old.infolist()):
            how = entry.compress_type if compression is None else compression
            new.writestr(zipfile.ZipInfo(entry.filename), old.read(entry), how)


def main():
    shutil.rmtree(FIXTURES, ignore_errors=True)
    FIXTURES.mkdir(parents=True)
    torch.manual_seed(SEED)
    inner = tokenizer()
    inner.save(str(FIXTURES / "tokenizer.json"))
    config = transformers.DPRConfig(
        vocab_size=inner.get_vocab_size(),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        attn_implementation="eager",
    )
    encoders = {
        "question": (transformers.DPRQuestionEncoder(config).eval(), "question_encoder"),
        "ctx": (transformers.DPRContextEncoder(config).eval(), "ctx_encoder"),
    }
    encoders["question"][0].config.to_json_file(FIXTURES / "config.json")
    vectors = {}
    for name, (model, prefix) in encoders.items():
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn_like(parameter) * 0.3)
            rows = [torch.tensor([inner.encode(text).ids]) for text in TEXTS]
            found = [model(row, token_type_ids=torch.zeros_like(row)).pooler_output[0] for row in rows]
        vectors[name] = [row.tolist() for row in found]
        state = model.state_dict()
        save_file({key: tensor.clone() for key, tensor in state.items()}, FIXTURES / f"{name}.safetensors")
        state = published(state, prefix)
        save(f"{name}.bin", state)
        save(f"{name}-legacy.bin", state, _use_new_zipfile_serialization=False)
        if name == "question":
            others(state)
            refused(state)
    golden = {"torch": torch.__version__, "texts": TEXTS, **vectors}
    (FIXTURES / "golden.json").write_text(json.dumps(golden) + "\n")


def others(state):
    for name, dtype in {"f16": torch.float16, "bf16": torch.bfloat16}.items():
        save(f"question-{name}.bin", {key: cast(tensor, dtype) for key, tensor in state.items()})
    double = {key: cast(tensor, torch.float64) for key, tensor in state.items()}
    save("question-f64.bin", double, _use_new_zipfile_serialization=False)
    save("question-views.bin", views(state))
    save("question-views-legacy.bin", views(state), _use_new_zipfile_serialization=False)
    for protocol in (4, 5):
        save(f"question-protocol-{protocol}.bin", state, pickle_protocol=protocol)
    torch.serialization.set_crc32_options(False)
    save("question-no-crc.bin", state)
    torch.serialization.set_crc32_options(True)
    names = sorted(state)
    files = [f"pytorch_model-0000{part}-of-00002.bin" for part in (1, 2)]
    halves = [names[: len(names) // 2], names[len(names) // 2 :]]
    for file, half in zip(files, halves):
        save(f"sharded/{file}", {name: state[name] for name in half})
    where = {name: file for file, half in zip(files, halves) for name in half}
    index = {"metadata": {}, "weight_map": where}
    (FIXTURES / "sharded/pytorch_model.bin.index.json").write_text(json.dumps(index, indent=1) + "\n")


def cast(tensor, dtype):
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


main()
