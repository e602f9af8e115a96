"""Prints the rows of the table of docs/guide/models.md: what `dpr export-web` writes for each model, from its sizes alone.

    python tests/python/model_sizes.py [--tokens N]

With --tokens, of what `dpr export-web --keep-tokens` writes where it keeps N tokens. The tokenizer comes on top. Matrices of words and of linear layers take a byte a number in `q8`, with a scale of 4 bytes a row, and two in `f16`; positions and
token types take two in both; biases and LayerNorms take four in all.
"""

import argparse

BERT, MPNET, DISTIL, ROBERTA, MODERN, NOMIC = "bert", "mpnet", "distilbert", "roberta", "modernbert", "nomic_bert"

# Name, family, words, width, layers, width of the feed-forward layer, positions, and the outputs of Dense layers.
MODELS = [
    ("all-MiniLM-L6-v2", BERT, 30522, 384, 6, 1536, 512, []),
    ("all-MiniLM-L12-v2", BERT, 30522, 384, 12, 1536, 512, []),
    ("all-mpnet-base-v2", MPNET, 30527, 768, 12, 3072, 514, []),
    ("all-distilroberta-v1", ROBERTA, 50265, 768, 6, 3072, 514, []),
    ("bge-base-en-v1.5", BERT, 30522, 768, 12, 3072, 512, []),
    ("bge-large-en-v1.5", BERT, 30522, 1024, 24, 4096, 512, []),
    ("bge-m3", ROBERTA, 250002, 1024, 24, 4096, 8194, []),
    ("multilingual-e5-small", BERT, 250037, 384, 12, 1536, 512, []),
    ("multilingual-e5-base", ROBERTA, 250002, 768, 12, 3072, 514, []),
    ("multilingual-e5-large", ROBERTA, 250002, 1024, 24, 4096, 514, []),
    ("snowflake-arctic-embed-xs", BERT, 30522, 384, 6, 1536, 512, []),
    ("nomic-embed-text-v1.5", NOMIC, 30528, 768, 12, 3072, 0, []),
    ("LaBSE", BERT, 501153, 768, 12, 3072, 512, [768]),
    ("distiluse-base-multilingual-cased-v2", DISTIL, 119547, 768, 6, 3072, 512, [512]),
    ("msmarco-distilbert-base-tas-b", DISTIL, 30522, 768, 6, 3072, 512, []),
    ("ko-sroberta-multitask", ROBERTA, 32000, 768, 12, 3072, 514, []),
    ("gte-modernbert-base", MODERN, 50368, 768, 22, 1152, 0, []),
]


def tensors(family, words, hidden, layers, wide, positions, dense):
    """Shapes of quantized matrices, elements of the small matrices, and elements of vectors."""
    matrices, small, vectors = [(words, hidden)], positions * hidden, 0
    has_biases = family not in (MODERN, NOMIC)
    small += {BERT: 2, ROBERTA: 1, NOMIC: 2}.get(family, 0) * hidden
    if family == MPNET:
        small += 32 * (hidden // 64)
    gated = family in (MODERN, NOMIC)
    norm = hidden if family == MODERN else 2 * hidden
    vectors += norm * (2 if family == MODERN else 1)
    for layer in range(layers):
        matrices += [(hidden, hidden)] * 4 + [(wide * (2 if gated else 1), hidden), (hidden, wide)]
        if has_biases:
            vectors += 5 * hidden + wide
        vectors += norm * (1 if family == MODERN and layer == 0 else 2)
    width = hidden
    for output in dense:
        matrices.append((output, width))
        vectors, width = vectors + output, output
    return matrices, small, vectors


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, metavar="N", help="keep N tokens of those that have more")
    kept = parser.parse_args().tokens
    print("| model | numbers, millions | `q8`, MB | `f16`, MB | `f32`, MB |\n|---|---|---|---|---|")
    for name, family, words, *sizes in MODELS:
        matrices, small, vectors = tensors(family, min(words, kept or words), *sizes)
        large, rows = sum(a * b for a, b in matrices), sum(a for a, _ in matrices)
        q8 = large + 4 * rows + 2 * small + 4 * vectors
        f16 = 2 * (large + small) + 4 * vectors
        whole = large + small + vectors
        print(f"| {name} | {whole / 1e6:.0f} | {q8 / 1e6:.0f} | {f16 / 1e6:.0f} | {4 * whole / 1e6:.0f} |")


if __name__ == "__main__":
    main()
