"""Writes tests/fixtures/tokenizers: tokenizers of the SentencePiece and the byte-level kind, and what Python's
`tokenizers` answers for 2,000 lines in more than 20 scripts, for the Rust tests to match.

    python tests/python/tokenizer_reference.py

Needs the packages of requirements/tests.in, and sentencepiece 0.2.3 and babel 2.18.0. The words are names of languages
and countries in the Unicode Common Locale Data Repository, as Babel carries them (Unicode licence v3); all other
lines are made up by lines.py. Nothing is read from a disk or the network.

  unigram.json.gz      SentencePiece Unigram in the layout of XLM-R: the normalizer is SentencePiece's own nmt_nfkc
                       table (Precompiled), the template <s> A </s> </s> B </s>
  byte-level.json.gz   byte-level BPE in the layout of RoBERTa: RobertaProcessing
  golden.json.gz       lines, and by tokenizer: ids of each line alone, ids of some lines as pairs; `classic` is the
                       byte-level one under a Sequence of ByteLevel and a template of [CLS] and [SEP], as ModernBERT's
"""

import base64
import gzip
import io
import json
import pathlib
import random

import sentencepiece
import tokenizers
from babel import Locale
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import lines

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "tokenizers"
SEED = 20200410
COUNT = 2000
MAX_TOKENS = 64
VOCABULARY = 3000

# One locale a script (Latin has three): Latin, Cyrillic, Greek, Arabic, Hebrew, Devanagari, Bengali, Gurmukhi,
# Gujarati, Odia, Tamil, Telugu, Kannada, Malayalam, Sinhala, Thai, Lao, Burmese, Georgian, Armenian, Ethiopic, Khmer,
# Hangul, Han, Kana with Han, Tibetan, Cherokee, Tifinagh.
LOCALES = (
    "vi pl tr ru el ar he hi bn pa gu or ta te kn ml si th lo my ka hy am km ko zh ja dz chr zgh"
).split()


def words_of(code):
    """Names of languages and countries in one locale, in a fixed order."""
    locale = Locale.parse(code)
    names = [*locale.languages.values(), *locale.territories.values()]
    return sorted({word for name in names for word in name.split()})


def sentences(rng, by_locale, each):
    """`each` lines of every locale; one in four mixes in a word of another."""
    every = []
    for words in by_locale:
        for _ in range(each):
            line = rng.choices(words, k=rng.randint(1, 9))
            if rng.random() < 0.25:
                line.insert(rng.randrange(len(line) + 1), rng.choice(rng.choice(by_locale)))
            every.append(rng.choice([" ", " ", " ", "  ", ", ", "\u3000"]).join(line) + rng.choice(["", "", ".", "?", "。"]))
    return every


def all_lines(by_locale):
    rng = random.Random(SEED)
    words = [word for words in by_locale for word in words]
    made = lines.BY_HAND + lines.RIGHT_TO_LEFT
    made += ["<s> typed by hand </s><pad> <unk> <mask> x", " <mask>", "a<mask>b"]
    made += [lines.korean_sentence(rng) for _ in range(60)]
    made += [lines.random_block_line(rng) for _ in range(200)]
    made += [lines.combining_line(rng, words) for _ in range(60)]
    made += [lines.control_line(rng, words) for _ in range(60)]
    made += [lines.emoji_line(rng, words) for _ in range(60)]
    each = -(-(COUNT - len(made)) // len(by_locale))
    return (made + sentences(rng, by_locale, each))[:COUNT]


def fields(message):
    """(number, value) of each field of a protocol buffer message; lengths are read, nested messages are bytes."""

    def varint(at):
        value, shift = 0, 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    at = 0
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 2:
            length, at = varint(at)
            yield key >> 3, message[at : at + length]
            at += length
        elif key & 7 == 0:
            value, at = varint(at)
            yield key >> 3, value
        else:
            size = {1: 8, 5: 4}[key & 7]
            yield key >> 3, message[at : at + size]
            at += size


def charsmap(model):
    """NormalizerSpec.precompiled_charsmap (field 2) of ModelProto.normalizer_spec (field 3)."""
    (spec,) = [value for number, value in fields(model) if number == 3]
    (table,) = [value for number, value in fields(spec) if number == 2]
    return table


def unigram(corpus, size=VOCABULARY, table=True):
    """A Unigram tokenizer as transformers makes it of an XLM-R model; without `table`, NFKC is the normalizer."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus),
        model_writer=out,
        vocab_size=size,
        model_type="unigram",
        character_coverage=0.99,
        normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    pieces = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(3, processor.get_piece_size())]
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocab += [(piece, round(score, 4)) for piece, score in pieces] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=3, byte_fallback=False))
    first = normalizers.Precompiled(charsmap(out.getvalue())) if table else normalizers.NFKC()
    tokenizer.normalizer = normalizers.Sequence([first, normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    special = [AddedToken(t, special=True, normalized=False) for t in ("<s>", "<pad>", "</s>", "<unk>")]
    tokenizer.add_special_tokens([*special, AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "[CLS]", "[SEP]"]


def byte_level(corpus, size=VOCABULARY):
    """A byte-level BPE tokenizer in the layout of RoBERTa."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    return tokenizer


def classic(tokenizer):
    """The same tokenizer with [CLS] A [SEP] B [SEP], behind a ByteLevel in a Sequence."""
    same = Tokenizer.from_str(tokenizer.to_str())
    template = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(t, same.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
    )
    same.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return same


def pairs_of(rows):
    """Every fourth short line as a title with the next as its text; neither is blank."""
    fit = [i for i in range(0, len(rows) - 1, 4) if rows[i].strip() and len(rows[i].encode()) < 40]
    return [[i, i + 1] for i in fit]


def answers(tokenizer, rows, pairs):
    tokenizer.enable_truncation(MAX_TOKENS, strategy="only_first")
    alone = [tokenizer.encode(row).ids for row in rows]
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    both = [tokenizer.encode(rows[a], rows[b]).ids for a, b in pairs]
    tokenizer.no_truncation()
    return {"ids": alone, "pair_ids": both, "post_processor": json.loads(tokenizer.to_str())["post_processor"]}


def write(name, text):
    FIXTURES.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(text.encode(), 9, mtime=0)
    (FIXTURES / name).write_bytes(packed)
    print(f"{name}: {len(packed):,} bytes")


def main():
    by_locale = [words_of(code) for code in LOCALES]
    corpus = sentences(random.Random(SEED + 1), by_locale, 300)
    rows = all_lines(by_locale)
    pairs = pairs_of(rows)
    made = {"unigram": unigram(corpus), "byte-level": byte_level(corpus)}
    for name, tokenizer in made.items():
        write(f"{name}.json.gz", json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")))
    made["classic"] = classic(made["byte-level"])
    golden = {
        "about": "Written by tests/python/tokenizer_reference.py; words from Unicode CLDR, Unicode licence v3.",
        "versions": {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__},
        "max_tokens": MAX_TOKENS,
        "lines": rows,
        "pairs": pairs,
        "tokenizers": {name: answers(tokenizer, rows, pairs) for name, tokenizer in made.items()},
    }
    golden["tokenizers"]["classic"].pop("ids")
    write("golden.json.gz", json.dumps(golden, ensure_ascii=False, separators=(",", ":")))
    unknown = sum(row.count(3) for row in golden["tokenizers"]["unigram"]["ids"])
    total = sum(map(len, golden["tokenizers"]["unigram"]["ids"]))
    print(f"{len(rows)} lines, {len(pairs)} pairs, unigram: {unknown} of {total} ids are <unk>")


if __name__ == "__main__":
    main()
