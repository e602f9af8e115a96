"""Writes tests/fixtures/eval: what independent code says of answers, predictions and rankings, for the Rust tests.

    python tests/python/eval_reference.py SQUAD.json

SQUAD.json is SQuAD v1.1 dev (CC BY-SA 4.0, plain or .gz: web-demo/corpus holds it), the only source of English
paragraphs. Everything else is made up here from fixed seeds; a second run with the same versions writes the same
bytes. Needs regex and pytrec-eval-terrier.

  has_answer.jsonl.gz    passages, then 20,000 (answer, passage, expected) by the rules of Karpukhin et al. 2020:
                         NFD on both sides, the answer's lower-cased tokens a contiguous run of the passage's
  reading.json.gz        (prediction, answers) with EM and F1 by SQuAD v1.1's rules and by KorQuAD 1.0's
  ranking.json.gz        a run and qrels with trec_eval's recip_rank, ndcg_cut_10 and recall, through pytrec_eval

`--pairs IN OUT` instead scores a jsonl of {answer, regex, text} from any corpus, for a check that is not shipped.
"""

import argparse
import collections
import gzip
import json
import pathlib
import random
import re
import string
import unicodedata

import regex

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "eval"
PAIRS = 20_000
TOKENS = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])", regex.IGNORECASE | regex.UNICODE | regex.MULTILINE)


def tokens(text):
    return [match[0].lower() for match in TOKENS.finditer(unicodedata.normalize("NFD", text))]


def has_text(answer, passage):
    """`answer` and `passage` are tokens."""
    return any(passage[i : i + len(answer)] == answer for i in range(len(passage) - len(answer) + 1))


def has_pattern(pattern, text):
    try:
        compiled = regex.compile(
            unicodedata.normalize("NFD", pattern), regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
        )
    except regex.error:
        return None
    return compiled.search(unicodedata.normalize("NFD", text)) is not None


# ---- what the pairs are made of

ACCENTED = """Café Beyoncé Dvořák Łódź Ångström Škoda naïve façade crème brûlée São Paulo Zürich Đặng Việt Nguyễn
Čapek Ñandú œuvre Æsir þorn ðe Straße STRASSE ẞ İstanbul ISTANBUL ıstanbul Ὀδυσσεύς ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ ΣΑΣ Σ Москва
МОСКВА Ёлка Йод ĳssel ﬁne ﬂow oﬃce ﬀ ﬆ ǆungla Ǆ ǅ Ⅷ ⅷ ½ ² ³ ① Ω Å ℃ № ｆｕｌｌ ＷＩＤＴＨ １２３ 𝓼𝓬𝓻 𝔊 ʼn ŉ ǰ ΐ ᾳ ᾼ
don't won’t ‘quoted’ “double” AT&T C++ C# .NET U.S. $5 50% 1,234.56 -0.5 3:15 a.m. e-mail rock'n'roll O'Neill
شَمْس شمس שָׁלוֹם שלום हिन्दी हि किताब ภาษาไทย 日本語 東京 中文 カタカナ が ガ ゛ か\u3099 2024年""".split()
KOREAN = """대한민국의 수도는 서울특별시입니다. 세종대왕은 한글을 1443년에 창제하였다. 제주도는 섬이다 고양이가 도서관에서 책을 읽는다.
김치찌개 (金) 30% ㅋㅋㅋ ㄱㄴㄷ 각 한강공원 AI는 '오늘' 《훈민정음》 2,900명 서울 부산 경복궁 별빛 ㈜한국""".split()
EMOJI = "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🇰🇷 🇺🇸 1️⃣ ❤️ ❤ ☺️ 🤷🏻‍♀️ 😀 👍🏿 ♾️ ™️ © ™ ® ∞ ≠ = √ € £ ¥ ₩ → ♯ ♭".split()
ODD = ["\x00", "\x07", "\x1c", "\x85", "\u00a0", "\u00ad", "\u200b", "\u200d", "\u2028", "\u2029", "\u3000", "\ufeff",
       "\ue000", "\uffff", "\U0010ffff", "\ufffd", "\u0301", "\u0327", "\u20dd", "\ufe0f", "\u061c", "\t", "\n", "\r\n"]
BLOCKS = [(0x00A0, 0x024F), (0x0250, 0x036F), (0x0370, 0x052F), (0x0590, 0x06FF), (0x0900, 0x097F), (0x0E00, 0x0E7F),
          (0x1100, 0x11FF), (0x1E00, 0x206F), (0x2070, 0x23FF), (0x2460, 0x27BF), (0x3000, 0x318F), (0x4E00, 0x4FFF),
          (0xAC00, 0xAFFF), (0xF900, 0xFB4F), (0xFE20, 0xFFEF), (0x10400, 0x1044F), (0x1D400, 0x1D7FF),
          (0x1F300, 0x1F64F), (0x2F800, 0x2FA1F)]  # fmt: skip


def assigned(rng):
    """A character that every version of Unicode in use knows alike."""
    while True:
        char = chr(rng.randint(*rng.choice(BLOCKS)))
        if unicodedata.category(char) != "Cn":
            return char


def synthetic(rng):
    kind = rng.randrange(5)
    words = rng.choices([ACCENTED, KOREAN, ACCENTED + EMOJI, KOREAN + EMOJI, ACCENTED][kind], k=rng.randint(5, 40))
    for _ in range(rng.choice([0, 2, 6])):
        words.insert(rng.randrange(len(words)), "".join(assigned(rng) for _ in range(rng.randint(1, 4))))
    for _ in range(rng.choice([0, 0, 3])):
        i = rng.randrange(len(words))
        cut = rng.randint(0, len(words[i]))
        words[i] = words[i][:cut] + rng.choice(ODD) + words[i][cut:]
    return unicodedata.normalize(rng.choice(["NFC", "NFD"]), rng.choice([" ", " ", " ", ""]).join(words))


def piece(rng, text):
    """A part of the text: whole words mostly, else any cut."""
    if rng.random() < 0.25:
        start = rng.randrange(len(text))
        return text[start : start + rng.randint(1, 25)]
    words = text.split()
    start = rng.randrange(len(words)) if words else 0
    return " ".join(words[start : start + rng.randint(1, 5)])


def changed(rng, answer):
    """The answer as somebody else would write it, or a little wrong."""
    words = answer.split()
    shuffled = words[::-1]
    changes = [answer] * 6 + [
        answer.upper(), answer.lower(), answer.title(), answer.swapcase(),
        answer[:-1], answer[1:], answer + "s", "a" + answer, answer + ".", "(" + answer + ")",
        "  " + answer.replace(" ", "\u00a0 ") + "\n", answer.replace(" ", "\u200b"), answer.replace(" ", ""),
        answer.replace(" ", "-"), " ".join(shuffled), "".join(c + "\u0301" * (rng.random() < 0.1) for c in answer),
        unicodedata.normalize("NFC", answer), unicodedata.normalize("NFD", answer),
        unicodedata.normalize("NFKC", answer), unicodedata.normalize("NFKD", answer), answer.replace("'", "’"),
    ]  # fmt: skip
    return rng.choice(changes)


def escape(text):
    """As CuratedTREC escapes: a backslash before all that is neither letter, digit nor space, also beyond ASCII."""
    return "".join(c if c.isalnum() or c.isspace() else "\\" + c for c in text)


def pattern(rng, text):
    part, other = (piece(rng, text).strip() or "x" for _ in range(2))
    word, last = part.split()[0] if part.split() else "x", other.split()[-1] if other.split() else "y"
    plain = regex.escape
    shapes = [
        escape(part), plain(part), part, escape(part).replace(" ", r"\s+"), rf"\b{escape(word)}\b",
        rf"{escape(word)}|{escape(last)}", rf"({escape(word)}).*({escape(last)})", rf"^{escape(word)}",
        rf"{escape(last)}$", rf"(?:{escape(word)}\s*,?\s*){{1,3}}", r"\b(1[89]|20)\d\d\b", r"\d{2},?\d{3}\b",
        r"\b\d+(\.[0-9]*)?\s*(percent|%)", rf"{escape(word)}[^ ]*ing\b", rf"[{escape(word[:3])}]{{4}}", r"[[\]]",
        r"[]()]", r"[^\W\d_]{14}", r"[\w-.]{18}", r"[a-\d%]{9}", rf"{escape(word)}{{", rf"{escape(word)}{{,2}}", "a{x}",
        rf"(?={escape(word)})\w+ \w+ing", rf"(?<!the ){escape(word)}", r"\b(\w+) \1\b", r"(?P<w>\w\w)(?P=w)",
        r"\w++s\b", r"\w*+\w", r"\A\w+", r"\w\.?\Z", r"\x41\u0301", r"\0", r"(?i:THE) [aeiou]\w{8}", r"\S{16}", "ß|ẞ",
        r"[&&||~~]", r"\<|\>", r"é|è|ü", r"É\b", "σ$", "ς", r"(a|e|)\b x", r"[가-힣]{6}", r"[ㄱ-ㅎ]", r"\w{17}", r"\s{2}",
        # invalid ones
        "(" + escape(word), escape(word) + ")", "[" + word.replace("]", ""), "*" + escape(word), escape(word) + "**",
        escape(word) + "{2}{3}", escape(word) + "\\", "[z-a]", r"\e\y", "a{3,1}", r"(\w)\2", "(?P<a", "(?<x", "[]",
    ]  # fmt: skip
    return rng.choice(shapes)


def write(name, lines):
    data = "".join(lines).encode()
    FIXTURES.mkdir(parents=True, exist_ok=True)
    (FIXTURES / name).write_bytes(gzip.compress(data, 9, mtime=0))


def answers_fixture(squad):
    rng = random.Random(5)
    articles = [
        ([p["context"] for p in article["paragraphs"]],
         [a["text"] for p in article["paragraphs"] for q in p["qas"] for a in q["answers"]])
        for article in squad
    ]  # fmt: skip
    passages, pairs = [], []
    for paragraphs, answers in articles:
        for text in rng.sample(paragraphs, min(10, len(paragraphs))):
            number = len(passages)
            passages.append(text)
            held = tokens(text)
            inside = [a for a in answers if a in text] or [piece(rng, text)]
            for i in range(27):
                choice = rng.choice(inside if i % 3 else answers) if i % 9 else piece(rng, text)
                pairs.append((changed(rng, choice), number, False, held))
            pairs += [(pattern(rng, text), number, True, None) for _ in range(4)]
    while len(pairs) < PAIRS + 400:
        text = synthetic(rng)
        number = len(passages)
        passages.append(text)
        held = tokens(text)
        pairs += [(changed(rng, piece(rng, text)), number, False, held) for _ in range(20)]
        pairs += [(piece(rng, synthetic(rng)), number, False, held) for _ in range(5)]
        pairs += [(pattern(rng, text), number, True, None) for _ in range(5)]
    lines = [json.dumps({"passage": text}, ensure_ascii=False) + "\n" for text in passages]
    counts = collections.Counter()
    rows = []
    for answer, number, is_pattern, held in pairs:
        if is_pattern:
            found = has_pattern(answer, passages[number])
            row = {"p": number, "regex": answer, "found": bool(found)} | ({"invalid": True} if found is None else {})
        elif not (wanted := tokens(answer)):
            continue  # an error, not a pair: the Rust side refuses it
        else:
            found = has_text(wanted, held)
            row = {"p": number, "text": answer, "found": found}
        rows.append(json.dumps(row, ensure_ascii=False) + "\n")
        counts[is_pattern, found] += 1
        if len(rows) == PAIRS:
            break
    write("has_answer.jsonl.gz", lines + rows)
    print(len(passages), "passages;", dict(counts))


# ---- reading


def squad_normal(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def korquad_normal(text):
    text = re.sub("['\"《》<>〈〉()‘’]", " ", text)
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(text.split())


def f1(predicted, truth):
    same = sum((collections.Counter(predicted) & collections.Counter(truth)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted), same / len(truth)
    return 2 * precision * recall / (precision + recall)


def reading_fixture(squad):
    rng = random.Random(6)
    texts = [q["answers"] for article in squad for p in article["paragraphs"] for q in p["qas"]]
    rows = []
    for i in range(3000):
        if i % 3:
            answers = [a["text"] for a in rng.choice(texts)]
        else:
            answers = [piece(rng, synthetic(rng)) or "x" for _ in range(rng.randint(1, 3))]
        prediction = changed(rng, rng.choice(answers)) if rng.random() < 0.8 else piece(rng, synthetic(rng))
        if rng.random() < 0.3:
            prediction = rng.choice(["the ", "A ", "an\u0301 ", "《", "‘", "a\u001c"]) + prediction
        row = {"prediction": prediction, "answers": answers}
        for name, normal, units in [("squad", squad_normal, str.split), ("korquad", korquad_normal, lambda t: "".join(t.split()))]:
            said = normal(prediction)
            truths = [normal(a) for a in answers]
            row[name] = [float(said in truths), max(f1(units(said), units(t)) for t in truths)]
        rows.append(json.dumps(row, ensure_ascii=False))
    write("reading.json.gz", ["[" + ",\n".join(rows) + "]\n"])


# ---- ranking


def ranking_fixture():
    import pytrec_eval

    rng = random.Random(7)
    documents = [f"d{i}" for i in range(400)]
    qrels, run = {}, {}
    for q in range(150):
        judged = rng.sample(documents, rng.randint(1, 30))
        qrels[f"q{q}"] = {d: rng.choice([0, 0, 1, 1, 2, 3]) for d in judged}
        if q % 10:  # every tenth is missing from the run
            depth = rng.choice([0, 3, 50, 150]) if q % 7 == 0 else 120
            found = rng.sample(judged, rng.randint(0, len(judged))) + rng.sample(documents, 200)
            found = list(dict.fromkeys(found))[:depth]
            rng.shuffle(found)
            # Few different scores, so that ties are the rule; all exact in f32.
            run[f"q{q}"] = {d: rng.randint(-20, 20) / 4 for d in found}
    run["unjudged"] = {"d1": 1.0}
    ks = [1, 5, 20, 100]
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "ndcg_cut.10", "recall." + ",".join(map(str, ks))})
    full = evaluator.evaluate(run)
    # trec_eval's order: score, then document name, both descending. recip_rank has no cut, so the run is cut.
    top10 = {q: dict(sorted(f.items(), key=lambda i: (i[1], i[0]), reverse=True)[:10]) for q, f in run.items()}
    cut = evaluator.evaluate(top10)
    expected = {
        q: {"rr": cut[q]["recip_rank"], "ndcg": full[q]["ndcg_cut_10"], "recall": [full[q][f"recall_{k}"] for k in ks]}
        for q in full
    }
    write("ranking.json.gz", [json.dumps({"ks": ks, "documents": documents, "qrels": qrels, "run": run, "expected": expected})])


def score_pairs(source, target):
    with open(source, encoding="utf-8") as lines, open(target, "w", encoding="utf-8") as out:
        for line in lines:
            row = json.loads(line)
            if row["regex"]:
                row["found"] = bool(has_pattern(row["answer"], row["text"]))
            else:
                row["found"] = has_text(tokens(row["answer"]), tokens(row["text"]))
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("squad", nargs="?")
    parser.add_argument("--pairs", nargs=2, metavar=("IN", "OUT"))
    args = parser.parse_args()
    if args.pairs:
        return score_pairs(*args.pairs)
    raw = pathlib.Path(args.squad).read_bytes()
    squad = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)["data"]
    answers_fixture(squad)
    reading_fixture(squad)
    ranking_fixture()


if __name__ == "__main__":
    main()
