"""Gives a WordPiece encoder a vocabulary for other languages: the layers are the old model's, the word embeddings new.

The vocabulary is learned from the texts, each file counted as if it were as long as the longest, so that a little text of a
new language is not outvoted. The embedding of a piece is
- the old model's, where its vocabulary has the piece;
- else, for ASCII text, the mean of the old model's pieces for that string;
- else drawn at random, with the mean and the deviation of the old table, in each dimension.

The tokenizer is the old model's in everything else. One that strips accents takes Korean syllables apart (NFD), so that
pieces are runs of letters, and no syllable is unknown.

Example: make_vocabulary.py --model minilm/ --text korean.json --text english.json.gz --size 12000 --out korean-minilm/
"""

import argparse
import csv
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.trainers import WordPieceTrainer

COPIED = ["modules.json", "1_Pooling", "sentence_bert_config.json"]


def texts(path: Path) -> list[str]:
    """Titles, paragraphs and questions of a SQuAD file, the text and title columns of a TSV, or lines."""
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as file:
        kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        if kind == ".json":
            articles = json.load(file)["data"]
            paragraphs = [p for article in articles for p in article["paragraphs"]]
            asked = [qa["question"] for p in paragraphs for qa in p["qas"]]
            return [article["title"] for article in articles] + [p["context"] for p in paragraphs] + asked
        if kind == ".tsv":
            rows = csv.DictReader(file, delimiter="\t")
            return [f"{row['title']} {row['text']}" for row in rows]
        return file.read().splitlines()


def balanced(files: list[list[str]]) -> list[str]:
    """The texts of all files, those of a shorter file repeated up to the length of the longest."""
    lengths = [sum(map(len, file)) for file in files]
    if not all(lengths):
        raise SystemExit("a file has no text")
    return [text for file, length in zip(files, lengths) for text in file * round(max(lengths) / length)]


def learn(old: Tokenizer, files: list[list[str]], size: int) -> dict[str, int]:
    """A vocabulary of at most `size` pieces; the special tokens keep their ids."""
    special = {token.content: id for id, token in old.get_added_tokens_decoder().items()}
    if max(special.values()) >= size:
        raise SystemExit(f"--size {size}: the special tokens need {max(special.values()) + 1} ids")
    new = Tokenizer(WordPiece(unk_token="[UNK]"))
    new.normalizer, new.pre_tokenizer = old.normalizer, old.pre_tokenizer
    trainer = WordPieceTrainer(
        vocab_size=size, min_frequency=2, limit_alphabet=2000, special_tokens=sorted(special), show_progress=False
    )
    new.train_from_iterator(balanced(files), trainer)
    learned = new.get_vocab()
    pieces = [piece for piece in sorted(learned, key=learned.__getitem__) if piece not in special]
    taken = set(special.values())
    free = (id for id in range(size) if id not in taken)
    return {**special, **dict(zip(pieces, free))}


def embeddings(table: np.ndarray, old: Tokenizer, vocabulary: dict[str, int], seed: int) -> tuple[np.ndarray, dict]:
    """The new table `[pieces, width]`, and how many rows came from where."""
    random = np.random.default_rng(seed)
    known = old.get_vocab()
    rows = random.normal(table.mean(axis=0), table.std(axis=0), (max(vocabulary.values()) + 1, table.shape[1]))
    counts = {"copied": 0, "mean": 0, "drawn": 0}
    for piece, id in vocabulary.items():
        ids = old.encode(piece.removeprefix("##"), add_special_tokens=False).ids
        if piece in known:
            rows[id] = table[known[piece]]
            counts["copied"] += 1
        elif piece.isascii() and ids:
            rows[id] = table[ids].mean(axis=0)
            counts["mean"] += 1
        else:
            counts["drawn"] += 1
    return rows.astype(table.dtype), counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="Hugging Face directory of the old model")
    parser.add_argument("--text", type=Path, action="append", required=True, help="SQuAD json, TSV or lines; .gz too")
    parser.add_argument("--size", type=int, default=12000, help="pieces, at most")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, required=True, help="Hugging Face directory to write")
    arguments = parser.parse_args()

    old = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    old.no_truncation()
    old.no_padding()
    if not isinstance(old.model, WordPiece):
        raise SystemExit(f"{arguments.model}: its tokenizer is not WordPiece")
    files = [texts(path) for path in arguments.text]
    vocabulary = learn(old, files, arguments.size)

    weights = load_file(arguments.model / "model.safetensors")
    names = [name for name in weights if name.endswith("embeddings.word_embeddings.weight")]
    if len(names) != 1:
        raise SystemExit(f"{arguments.model}: {len(names)} tensors are word embeddings, expected 1")
    table, counts = embeddings(weights[names[0]], old, vocabulary, arguments.seed)
    weights[names[0]] = table

    arguments.out.mkdir(parents=True, exist_ok=True)
    tokenizer = json.loads((arguments.model / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"] = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
    config = json.loads((arguments.model / "config.json").read_text(encoding="utf-8"))
    config["vocab_size"] = len(table)
    for name, content in (("tokenizer.json", tokenizer), ("config.json", config)):
        (arguments.out / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    for name in COPIED:
        if (arguments.model / name).is_dir():
            shutil.copytree(arguments.model / name, arguments.out / name, dirs_exist_ok=True)
        elif (arguments.model / name).exists():
            shutil.copy(arguments.model / name, arguments.out / name)
    save_file(weights, arguments.out / "model.safetensors", metadata={"format": "pt"})

    print(f"{len(vocabulary)} pieces: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    new = Tokenizer.from_file(str(arguments.out / "tokenizer.json"))
    new.no_truncation()
    new.no_padding()
    unknown = new.token_to_id("[UNK]")
    for path, file in zip(arguments.text, files):
        ids = [id for encoded in new.encode_batch(file, add_special_tokens=False) for id in encoded.ids]
        share = ids.count(unknown) / len(ids)
        print(f"{path.name}: {sum(map(len, file)) / len(ids):.2f} characters a piece, {share:.3%} unknown")


if __name__ == "__main__":
    main()
