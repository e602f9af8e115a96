"""Writes tests/fixtures/readers: small random readers of three classes, the scores that Python's transformers gives tokens
and passages with them, and the answers that a decoding after the paper's text (Karpukhin et al. 2020, section 6.1) finds.

    python tests/python/readers.py

Everything is made up from a fixed seed, so a second run with the same versions writes the same bytes. Needs the packages of
requirements/tests.in.

  cases.json   questions, each with passages: with a title, without, an empty text, texts far too long, Korean, signs outside
               the basic plane, words that no vocabulary has
  dpr          DPRReader: `[CLS] question [SEP] title [SEP] text`, a layer that chooses the passage; WordPiece
  bert         BertForQuestionAnswering: two token types, the tokenizer of dpr
  roberta      RobertaForQuestionAnswering: one token type, byte-level BPE

A golden.json holds for each passage of the first questions the token ids and types and the logits, and for every question the
answers of all its passages. Weights are in half precision, which both sides read into single precision.
"""

import json
import math
import random
import shutil

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import pre_tokenizers, processors, trainers

import golden
from cross_encoders import BREAD, CATS, KOREAN, RIVERS, SIZES, wordpiece
from random_models import config_of, randomize

FIXTURES = golden.FIXTURES / "readers"
MAX_TOKENS = 60
MAX_ANSWER_TOKENS = 10
SPANS = 3
# Questions whose logits are written.
WITH_LOGITS = 2

SIGNS = "The clef 𝄞 (a G-clef) costs €1,200.50; the Rhine's “castles”, 12th-century\tand older, don't. "


def cases():
    """Twelve questions of five passages."""
    words = (RIVERS + CATS + BREAD + SIGNS + KOREAN).split()
    rng = random.Random(20)

    def some(low, high):
        return " ".join(rng.choice(words) for _ in range(rng.randint(low, high)))

    made = [
        ["where does the rhine rise", [["Rhine", RIVERS], ["Cat", CATS], ["", BREAD]]],
        ["한강은 어디로 흐르나?", [["한강", KOREAN], ["", KOREAN * 4], ["Signs", SIGNS]]],
        ["what is bread made of?", [["Bread", BREAD * 9], ["Bread", ""], ["Bread", "Flour."], ["  ", SIGNS * 3], ["𝄞", " \n "]]],
    ]
    for _ in range(9):
        made.append([some(3, 8), [[some(0, 2), some(1, 60)] for _ in range(5)]])
    return made


def byte_level():
    """A RoBERTa tokenizer of the cases' letters and the commonest pairs of them."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=specials, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator([RIVERS, CATS, BREAD, SIGNS, KOREAN], trainer)
    inner.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    named = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>"}
    named = {f"{name}_token": token for name, token in named.items()}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=MAX_TOKENS, **named)


def paper_input(tokenizer, question, title, text):
    """Ids, types, and for each token of the text its place: `[CLS] question [SEP] title [SEP] text`."""
    # Lists, since an empty text by itself counts as none.
    ids = tokenizer([question], [title])["input_ids"][0]
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    places = {len(ids) + index: place for index, place in enumerate(found["offset_mapping"])}
    ids = (ids + found["input_ids"])[:MAX_TOKENS]
    return ids, [0] * len(ids), {at: place for at, place in places.items() if at < MAX_TOKENS}


def pair_input(tokenizer, question, title, text):
    """The same of a question and a text alone, by the tokenizer's own template and truncation."""
    rows = tokenizer(
        [question],
        [text],
        truncation="only_second",
        max_length=MAX_TOKENS,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    places = zip(rows["offset_mapping"][0], rows.sequence_ids(0))
    places = {at: place for at, (place, sequence) in enumerate(places) if sequence == 1}
    return rows["input_ids"][0], rows["token_type_ids"][0], places


def words_of(tokenizer, text, places, pieces):
    """For each token of the text, the positions of the first and the last token of its word, in the whole text."""
    row = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if pieces:
        tokens = tokenizer.convert_ids_to_tokens(row["input_ids"])
        words, word = [], -1
        for token in tokens:
            word += not token.startswith("##")
            words.append(word)
    else:
        words = row.word_ids()
    offsets = row["offset_mapping"]
    found = {}
    # Byte-level tokenizers count the space before a word to it, and call a run of punctuation a word: neither is extended.
    lettered = [any(letter.isalnum() for letter in text[start:end]) for start, end in offsets]
    for count, at in enumerate(sorted(places)):
        same = [index for index, word in enumerate(words) if word == words[count] and (pieces or lettered[index])]
        found[at] = (same[0], same[-1]) if pieces or lettered[count] else (count, count)
    return offsets, found


def softmax(logits):
    most = max(logits)
    powers = [math.exp(x - most) for x in logits]
    return [power / sum(powers) for power in powers]


def spans_of(text, start, end, places, whole):
    """The best spans of one passage: end - start < 10 tokens, extended to whole words, none over another."""
    offsets, word = whole
    p_start, p_end = softmax(start), softmax(end)
    candidates = [
        (p_start[s] * p_end[t], start[s] + end[t], s, t)
        for s in places
        for t in places
        if 0 <= t - s < MAX_ANSWER_TOKENS
    ]
    candidates.sort(key=lambda span: (-span[0], span[2], span[3]))
    kept, best = [], None
    for score, logit, s, t in candidates:
        first, last = word[s][0], word[t][1]
        begin, stop = offsets[first][0], offsets[last][1]
        cut = text[begin:stop]
        begin += len(cut) - len(cut.lstrip())
        cut = cut.strip()
        stop = begin + len(cut)
        if not cut or any(begin < other["end"] and other["start"] < stop for other in kept):
            continue
        best = logit if best is None else best
        kept.append({"text": cut, "start": begin, "end": stop, "score": score})
        if len(kept) == SPANS:
            break
    return kept, best


def answers_of(found):
    """The answers of one question: of the likeliest passage first. `found` has spans and a selection logit or None."""
    chosen = [(passage, logit) for passage, (_, logit) in enumerate(found) if logit is not None]
    if not chosen:
        return []
    likely = softmax([logit for _, logit in chosen])
    order = sorted(zip(chosen, likely), key=lambda item: (-item[0][1], item[0][0]))
    answers = [
        {"passage": passage, "selection": selection, **span}
        for (passage, _), selection in order
        for span in found[passage][0]
    ]
    return answers


def rounded(value):
    if isinstance(value, float):
        return round(value, 7)
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value


def read(model, tokenizer, name, asked):
    """The rows of the first questions, and the answers of all."""
    paper = name == "dpr"
    typed = name == "bert"
    rows, answers, gaps = [], [], []
    for number, (question, passages) in enumerate(asked):
        found = []
        for title, text in passages:
            ids, types, places = (paper_input if paper else pair_input)(tokenizer, question, title, text)
            tensor = torch.tensor([ids])
            extra = {"token_type_ids": torch.tensor([types])} if typed else {}
            out = model(input_ids=tensor, attention_mask=torch.ones_like(tensor), **extra)
            start, end = out.start_logits[0].tolist(), out.end_logits[0].tolist()
            row = {"ids": ids, "types": types, "start": start, "end": end}
            whole = words_of(tokenizer, text, places, name != "roberta")
            spans, best = spans_of(text, start, end, places, whole)
            if paper:
                selection = out.relevance_logits.reshape(-1)[0].item()
                row["selection"] = selection
            else:
                selection = None if best is None else best - start[0] - end[0]
            found.append((spans, selection))
            gaps += [a["score"] / b["score"] for a, b in zip(spans, spans[1:])]
            if number < WITH_LOGITS:
                rows.append(row)
        answers.append(answers_of(found))
    return rows, answers, min(gaps)


def models(pieces, bytes_):
    size = len(pieces)
    roberta = {"vocab_size": len(bytes_), "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "layer_norm_eps": 1e-5}
    dpr = transformers.DPRConfig(vocab_size=size, projection_dim=0, **SIZES)
    return {
        "dpr": (transformers.DPRReader, dpr, pieces),
        "bert": (transformers.BertForQuestionAnswering, transformers.BertConfig(vocab_size=size, **SIZES), pieces),
        "roberta": (
            transformers.RobertaForQuestionAnswering,
            transformers.RobertaConfig(type_vocab_size=1, **roberta, **SIZES),
            bytes_,
        ),
    }


def check_layout(tokenizer, asked, root):
    """The ids that transformers' own tokenizer of DPR's reader makes."""
    (root / "vocab.txt").write_text("\n".join(sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)) + "\n")
    theirs = transformers.DPRReaderTokenizer(str(root / "vocab.txt"), vocab_file=str(root / "vocab.txt"))
    for question, passages in asked:
        for title, text in passages:
            expected = theirs(question, title, text, max_length=MAX_TOKENS, truncation=True)["input_ids"][0]
            assert paper_input(tokenizer, question, title, text)[0] == expected, (question, title, text)
    (root / "vocab.txt").unlink()


def write(name, seed, kind, config, tokenizer, asked):
    root = FIXTURES / name
    root.mkdir(parents=True)
    model = randomize(kind(config), seed, large=("embeddings", "qa_")).eval()
    (root / "config.json").write_text(json.dumps(config_of(config, kind.__name__), indent=2) + "\n")
    halves = {k: v.half().contiguous() for k, v in model.state_dict().items() if v.is_floating_point()}
    save_file(halves, root / "model.safetensors", metadata={"format": "pt"})
    model, seen = kind.from_pretrained(root, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    assert not seen["missing_keys"] and not seen["unexpected_keys"], (name, seen)
    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    inner["truncation"] = inner["padding"] = None
    (root / "tokenizer.json").write_text(json.dumps(inner, ensure_ascii=False, separators=(",", ":")))
    tokenizer_class = "PreTrainedTokenizerFast" if name == "roberta" else "BertTokenizer"
    named = {"model_max_length": MAX_TOKENS, "tokenizer_class": tokenizer_class}
    (root / "tokenizer_config.json").write_text(json.dumps(named, indent=1) + "\n")
    rows, answers, gap = read(model.eval(), tokenizer, name, asked)
    if name == "dpr":
        check_layout(tokenizer, asked, root)
    facts = {
        "about": "Written by tests/python/readers.py.",
        "transformers": transformers.__version__,
        "max_tokens": MAX_TOKENS,
        "max_answer_tokens": MAX_ANSWER_TOKENS,
        "spans": SPANS,
        "rows": rows,
        "answers": answers,
    }
    (root / "golden.json").write_text(json.dumps(rounded(facts), ensure_ascii=False) + "\n")
    size = sum(path.stat().st_size for path in root.iterdir())
    words = sum(" " in answer["text"] for found in answers for answer in found)
    print(f"{name}: {size:,} bytes, {sum(map(len, answers))} answers, {words} of several words, nearest scores {gap:.5f} apart")


def main():
    shutil.rmtree(FIXTURES, ignore_errors=True)
    FIXTURES.mkdir(parents=True)
    asked = cases()
    (FIXTURES / "cases.json").write_text(json.dumps(asked, ensure_ascii=False, indent=1) + "\n")
    pieces, bytes_ = wordpiece(), byte_level()
    with torch.no_grad():
        for seed, (name, (kind, config, tokenizer)) in enumerate(models(pieces, bytes_).items(), 1):
            write(name, seed, kind, config, tokenizer, asked)


if __name__ == "__main__":
    main()
