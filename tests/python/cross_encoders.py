"""Writes tests/fixtures/cross-encoders: small random cross-encoders of five classes, and the scores that Python's
transformers gives pairs of a question and a passage with them.

    python tests/python/cross_encoders.py

Everything is made up from a fixed seed, so a second run with the same versions writes the same bytes. Needs the packages of
requirements/tests.in; where sentence-transformers is installed (6.2.0 was), its CrossEncoder must give the same scores, which
checks the truncation and the token types too.

  pairs.json      questions, titles and texts: with a title, without, with a blank one, far too long on either side, Korean
  bert            pooler and classifier, two token types; WordPiece
  xlm-roberta     classifier.dense, tanh, classifier.out_proj, one token type; Unigram
  electra         classifier.dense, GELU, classifier.out_proj; the tokenizer of bert
  distilbert      pre_classifier, ReLU, classifier, no token types; the tokenizer of bert
  mpnet           the head of xlm-roberta, relative positions; its tokenizer too

A golden.json holds the scores (logits), those without token types as `untyped_scores`, and the tokens of each pair where
the directory has a tokenizer. A title stands before its text with a space between; `separator_ids` has the tokens with a
separator between. Weights are in half precision, which both sides read into single precision.
"""

import json
import shutil
from collections import Counter

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import normalizers, pre_tokenizers

import golden
from random_models import config_of, randomize

FIXTURES = golden.FIXTURES / "cross-encoders"
MAX_TOKENS = 48
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}

RIVERS = (
    "The Rhine rises in the Alps and flows north to the sea. Ships have carried wine, stone and timber on it since Roman "
    "times, and its castles draw visitors from every country of the world. "
)
CATS = "Cats sleep for most of the day, and hunt at dawn and at dusk, when mice and birds are about. "
BREAD = "Bread is made of flour, water, salt and yeast; the dough rests, rises, and is baked until its crust is brown. "
KOREAN = "한강은 서울을 지나 서쪽 바다로 흐른다. 강가에는 공원이 많아서 주말마다 사람들이 자전거를 탄다. "
LONG_QUESTION = "where does the river that has castles on its banks rise, and what did ships carry on it in Roman times, "

PAIRS = [
    ["where does the rhine rise", "Rhine", RIVERS],
    ["where does the rhine rise", "Cat", CATS],
    ["where does the rhine rise", "Bread", BREAD],
    ["where does the rhine rise", "", RIVERS],
    ["where does the rhine rise", "", CATS],
    ["where does the rhine rise", "  ", BREAD],
    ["when do cats hunt", "Cat", CATS],
    ["when do cats hunt", "", CATS],
    ["when do cats hunt", "Rhine", RIVERS * 6],
    ["when do cats hunt", "", BREAD * 9],
    ["what is bread made of?", "Bread", BREAD * 4],
    ["what is bread made of?", "Bread", "Flour."],
    ["what is bread made of?", "Bread", ""],
    [LONG_QUESTION * 5, "Rhine", RIVERS],
    [LONG_QUESTION * 5, "", "Wine."],
    [LONG_QUESTION * 5, "Rhine", RIVERS * 5],
    ["한강은 어디로 흐르나?", "한강", KOREAN],
    ["한강은 어디로 흐르나?", "", KOREAN * 4],
    ["한강은 어디로 흐르나?", "Rhine", RIVERS],
    ["who bakes bread in 서울?", "빵", BREAD],
]


def text_of(title, text):
    return f"{title} {text}" if title.strip() else text


def texts():
    return [part for question, title, text in PAIRS for part in (question, text_of(title, text))]


def wordpiece():
    """A BERT tokenizer of the characters and the words of the pairs."""
    normalizer = normalizers.BertNormalizer(lowercase=True)
    split = pre_tokenizers.BertPreTokenizer()
    words = Counter(word for text in texts() for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)))
    letters = sorted({letter for word in words for letter in word})
    # Some words are left out, so that they are put together from characters.
    whole = [word for word in sorted(words) if len(word) > 1][::2]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [form for letter in letters for form in (letter, "##" + letter)] + whole
    vocab = {piece: index for index, piece in enumerate(pieces)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizer, split
    inner.add_special_tokens(pieces[:5])
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=MAX_TOKENS, **named)


def unigram():
    """An XLM-R tokenizer of the characters and the words of the pairs."""
    split = pre_tokenizers.Metaspace()
    words = Counter(word for text in texts() for word, _ in split.pre_tokenize_str(text))
    letters = sorted({letter for word in words for letter in word})
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    whole = [word for word in sorted(words) if len(word) > 1][::2]
    vocab = [(piece, 0.0) for piece in specials]
    vocab += [(letter, -9.0) for letter in letters] + [(word, -6.0) for word in whole]
    inner = tokenizers.Tokenizer(tokenizers.models.Unigram(vocab, unk_id=3))
    inner.normalizer, inner.pre_tokenizer = normalizers.NFC(), split
    inner.add_special_tokens(specials)
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        model_max_length=MAX_TOKENS,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )


def models(pieces, sentence):
    """By name: the class, its configuration, and the tokenizer."""
    roberta = {"vocab_size": len(sentence), "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5}
    distil = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64}
    bert, size = transformers.BertConfig, len(pieces)
    return {
        "bert": (transformers.BertForSequenceClassification, bert(vocab_size=size, num_labels=1, **SIZES), pieces),
        "xlm-roberta": (
            transformers.XLMRobertaForSequenceClassification,
            transformers.XLMRobertaConfig(type_vocab_size=1, num_labels=1, **roberta, **SIZES),
            sentence,
        ),
        "electra": (
            transformers.ElectraForSequenceClassification,
            transformers.ElectraConfig(vocab_size=size, embedding_size=32, num_labels=1, **SIZES),
            pieces,
        ),
        "distilbert": (
            transformers.DistilBertForSequenceClassification,
            transformers.DistilBertConfig(vocab_size=size, num_labels=1, **distil),
            pieces,
        ),
        "mpnet": (
            transformers.MPNetForSequenceClassification,
            transformers.MPNetConfig(num_labels=1, **roberta, **SIZES),
            sentence,
        ),
    }


def tokens(tokenizer, question, second):
    return tokenizer(
        question, second, truncation="longest_first", max_length=MAX_TOKENS, return_token_type_ids=True
    )


def scores(model, tokenizer, typed=True):
    types = typed and getattr(model.config, "type_vocab_size", 0) > 1
    found = []
    for question, title, text in PAIRS:
        row = tokens(tokenizer, question, text_of(title, text))
        ids = torch.tensor([row["input_ids"]])
        extra = {"token_type_ids": torch.tensor([row["token_type_ids"]])} if types else {}
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits
        found.append(logits[0, 0].item())
    return found


def check_with_sentence_transformers(root, expected):
    """The same scores by CrossEncoder, which tokenizes and truncates by itself."""
    try:
        from sentence_transformers import CrossEncoder
    except ImportError:
        return
    model = CrossEncoder(str(root), device="cpu", model_kwargs={"dtype": torch.float32})
    pairs = [(question, text_of(title, text)) for question, title, text in PAIRS]
    found = model.predict(pairs, activation_fn=torch.nn.Identity(), batch_size=4)
    worst = max(abs(float(a) - b) for a, b in zip(found, expected))
    assert worst < 1e-5, (root.name, worst)
    print(f"{root.name}: CrossEncoder is {worst:.1e} off")


def write(name, seed, kind, config, tokenizer, own):
    root = FIXTURES / name
    root.mkdir(parents=True)
    model = randomize(kind(config), seed, large=("embeddings", "relative")).eval()
    fields = config_of(config, kind.__name__)
    (root / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
    halves = {k: v.half().contiguous() for k, v in model.state_dict().items() if v.is_floating_point()}
    save_file(halves, root / "model.safetensors", metadata={"format": "pt"})
    model, seen = transformers.AutoModelForSequenceClassification.from_pretrained(
        root, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    assert type(model) is kind and not seen["missing_keys"] and not seen["unexpected_keys"], (name, seen)
    expected = scores(model.eval(), tokenizer)
    assert max(expected) - min(expected) > 0.5, (name, expected)
    facts = {
        "about": "Written by tests/python/cross_encoders.py.",
        "transformers": transformers.__version__,
        "max_tokens": MAX_TOKENS,
        "scores": [round(score, 7) for score in expected],
    }
    if own:
        inner = json.loads(tokenizer.backend_tokenizer.to_str())
        inner["truncation"] = inner["padding"] = None
        text = json.dumps(inner, ensure_ascii=False, separators=(",", ":"))
        (root / "tokenizer.json").write_text(text)
        tokenizer_class = "BertTokenizer" if name == "bert" else "PreTrainedTokenizerFast"
        named = {"model_max_length": MAX_TOKENS, "tokenizer_class": tokenizer_class}
        named |= {key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)}
        (root / "tokenizer_config.json").write_text(json.dumps(named, indent=1) + "\n")
        rows = [tokens(tokenizer, question, text_of(title, text)) for question, title, text in PAIRS]
        facts["ids"] = [row["input_ids"] for row in rows]
        facts["types"] = [row["token_type_ids"] for row in rows]
        assert any(len(row["input_ids"]) == MAX_TOKENS for row in rows)
        check_with_sentence_transformers(root, expected)
    if name == "bert":
        joined = [
            tokens(tokenizer, question, f"{title} [SEP] {text}" if title.strip() else text)["input_ids"]
            for question, title, text in PAIRS
        ]
        facts["separator_ids"] = joined
        facts["untyped_scores"] = [round(score, 7) for score in scores(model, tokenizer, typed=False)]
    (root / "golden.json").write_text(json.dumps(facts, ensure_ascii=False) + "\n")
    print(f"{name}: {sum(path.stat().st_size for path in root.iterdir()):,} bytes, scores {min(expected):.2f} to {max(expected):.2f}")


def main():
    shutil.rmtree(FIXTURES, ignore_errors=True)
    FIXTURES.mkdir(parents=True)
    (FIXTURES / "pairs.json").write_text(json.dumps(PAIRS, ensure_ascii=False, indent=1) + "\n")
    pieces, sentence = wordpiece(), unigram()
    with torch.no_grad():
        for seed, (name, (kind, config, tokenizer)) in enumerate(models(pieces, sentence).items(), 1):
            write(name, seed, kind, config, tokenizer, name in ("bert", "xlm-roberta"))


if __name__ == "__main__":
    main()
