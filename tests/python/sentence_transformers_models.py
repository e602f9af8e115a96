"""Writes tests/fixtures/sentence-transformers: small random models as sentence-transformers itself saves them.

    python tests/python/sentence_transformers_models.py

What is written depends on the version that is installed: run it once with sentence-transformers 6 and once with 5.0,
the last one to write the old form of pooling (it needs transformers 4). Everything is made up from a fixed seed, so a
second run with the same versions writes the same bytes. Needs torch, transformers and sentence-transformers.

What is written, N being the major version:
  mean-N/            BERT, mean pooling, length 1, 16 of its 32 positions; both versions hold the same weights
  mean-N/golden.json texts and their vectors by SentenceTransformer.encode
  dense-6/           the same with a Dense module between pooling and length 1, as LaBSE has one
  cross-encoder-6/   BertForSequenceClassification, as CrossEncoder saves it
"""

import json
import pathlib
import shutil
import string
import tempfile

import sentence_transformers
import tokenizers
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.models import Dense, Normalize, Pooling, Transformer

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "sentence-transformers"
VERSION = sentence_transformers.__version__
MAJOR = VERSION.split(".")[0]
SEED = 20200410
POSITIONS = 32
MAX_TOKENS = 16

TEXTS = [
    "who won the game",
    "when was the war",
    "cats",
    "the cat sleeps most of the day and most of the night and then the dog is who won the game of the day",
]


def tokenizer():
    """A BERT tokenizer of the special tokens, the letters and the words of TEXTS."""
    words = sorted({word for text in TEXTS for word in text.split()})
    letters = [form for letter in string.ascii_lowercase for form in (letter, "##" + letter)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(w for w in words if len(w) > 1)]
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
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **named)


def randomize(module):
    """Weights large enough that every one of them matters."""
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(1.0 + 0.2 * noise if name.endswith("LayerNorm.weight") else 0.4 * noise)
    return module.eval()


def plain(directory, kind, **extra):
    """A random BERT and its tokenizer, as transformers saves them."""
    tokens = tokenizer()
    config = transformers.BertConfig(
        vocab_size=len(tokens),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=POSITIONS,
        **extra,
    )
    randomize(kind(config)).save_pretrained(directory)
    tokens.save_pretrained(directory)


def save(model, name):
    """Saves the model under FIXTURES, without the files that hold nothing but words and versions."""
    target = FIXTURES / f"{name}-{MAJOR}"
    shutil.rmtree(target, ignore_errors=True)
    model.save_pretrained(str(target), create_model_card=False)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target.name}: {size:,} bytes")
    return target


def sentence_model(base, *modules):
    transformer = Transformer(base, max_seq_length=MAX_TOKENS)
    return SentenceTransformer(modules=[transformer, *modules], device="cpu")


def main():
    with tempfile.TemporaryDirectory() as folder:
        base, scored = f"{folder}/base", f"{folder}/scored"
        plain(base, transformers.BertModel)
        mean = sentence_model(base, Pooling(8, pooling_mode="mean"), Normalize())
        golden = {
            "about": "Written by tests/python/sentence_transformers_models.py",
            "sentence_transformers": VERSION,
            "max_tokens": MAX_TOKENS,
            "texts": TEXTS,
            "vectors": [[round(float(v), 7) for v in row] for row in mean.encode(TEXTS)],
        }
        (save(mean, "mean") / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
        if int(MAJOR) < 6:
            return
        dense = randomize(Dense(8, 8))
        save(sentence_model(base, Pooling(8, pooling_mode="cls"), dense, Normalize()), "dense")
        plain(scored, transformers.BertForSequenceClassification, num_labels=1)
        save(CrossEncoder(scored, device="cpu"), "cross-encoder")


if __name__ == "__main__":
    main()
