"""Writes tests/fixtures/words/golden.json: the terms of every language's analyzer, for the Rust tests.

    python tests/python/words_reference.py

The lines are those of tests/fixtures/words/texts.toml. The analysis is written here from its description
(docs/guide/evaluation.md): NFKC; words of letters, digits and marks, within which an apostrophe may stand; lower case;
elisions; stop words; the stem by snowballstemmer. Elided articles are those of Lucene's analyzers; stop words are
Snowball's lists as Whoosh copied them, with what Snowball has changed since.
Needs snowballstemmer 3.1.1, Whoosh 2.7.4 and regex; snowballstemmer 3.0 lacks Czech, Persian and Polish.
"""

import json
import pathlib
import tomllib
import unicodedata

import regex
import snowballstemmer
from whoosh.lang.stopwords import stoplists

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "words"
ENGLISH = set(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
LISTS = {
    "danish": "da", "dutch": "nl", "finnish": "fi", "french": "fr", "german": "de", "hungarian": "hu",
    "italian": "it", "norwegian": "no", "portuguese": "pt", "russian": "ru", "spanish": "es", "swedish": "sv",
}
# What Snowball took from its lists and added to them since Whoosh copied them.
REMOVED = {
    "finnish": "tallä tuotä",
    "french": "as aura auras avions ayante ayantes ayants est fût sommes son étante étantes étants été étés",
    "hungarian": "elsõ elõ elõször elõtt õ õk õket",
    "spanish": "sentid sentida sentidas sentido sentidos siente sintiendo vosostras vosostros",
    "swedish": "sitta",
}
ADDED = {
    "finnish": "tuota tällä",
    "french": "ceci cela celà cet cette ici ils les leurs quel quelle quelles quels sans soi",
    "hungarian": "első elő először előtt ő ők őket",
    "russian": "говорил жизнь кажется сегодня сказал сказала сказать человек",
    "spanish": "sido siendo vosotras vosotros",
    "swedish": "sitt",
}
ELIDED = {
    "catalan": "d l m n s t",
    "french": "l m t qu n s j d c jusqu quoiqu lorsqu puisqu",
    "irish": "d m b",
    "italian": "c l all dall dell nell sull coll pell gl agl dagl degl negl sugl un m t s v d",
}
LETTER = r"[\p{Alphabetic}\p{N}\p{M}]"
UNSEEN = "\u00ad\u0640\u200c\u200d\u2060"
CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]+")


def stop_words(language):
    if language == "english_porter2":
        return ENGLISH
    if language not in LISTS:
        return set()
    words = set(stoplists[LISTS[language]])
    return words - set(REMOVED.get(language, "").split()) | set(ADDED.get(language, "").split())


def lower(language, word):
    if language == "turkish":
        word = word.replace("I", "ı")
    word = "".join(c.lower() for c in word.replace("İ", "i"))
    if language == "greek":
        word = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return word


def split(language, text):
    joint = "['’·]" if language == "catalan" else "['’]"
    text = unicodedata.normalize("NFKC", text)
    for run in regex.findall(rf"{LETTER}(?:[{UNSEEN}]*{joint}?[{UNSEEN}]*{LETTER})*", text):
        at = 0
        for match in CJK.finditer(run):
            yield run[at:match.start()], False
            yield match.group(), True
            at = match.end()
        yield run[at:], False


def terms(language, text, keep):
    stop = set() if keep else stop_words(language)
    stem = snowballstemmer.stemmer("english" if language == "english_porter2" else language).stemWord
    for word, cjk in split(language, text):
        if cjk:
            yield from (word[i:i + 2] for i in range(max(len(word) - 1, 1)))
            continue
        if language == "irish":
            word = regex.sub("^[nt](?=[AEIOUÁÉÍÓÚ])", "", word)
        word = lower(language, word.replace("’", "'"))
        word = "".join(c for c in word if c not in UNSEEN or (language == "persian" and c == "\u200c"))
        word = "".join(str(unicodedata.decimal(c)) if unicodedata.category(c) == "Nd" else c for c in word)
        before, apostrophe, after = word.partition("'")
        if apostrophe and before in ELIDED.get(language, "").split():
            word = after
        if language == "english_porter2":
            word = word.removesuffix("'s")
        if word and word not in stop and not (language == "irish" and word in ("h", "n", "t")):
            yield stem(word)


def main():
    texts = tomllib.loads((FOLDER / "texts.toml").read_text())
    golden = {}
    for language, lines in texts.items():
        stop = stop_words(language)
        words = [word for word in lines["words"].split() if word not in stop]
        sentences = []
        for text in lines["sentences"]:
            kept, dropped = ([*terms(language, text, keep)] for keep in (True, False))
            sentences.append({"text": text, "terms": dropped, "with_stop_words": kept})
            words += [word for word, cjk in split(language, text) if not cjk and lower(language, word) not in stop]
        words = {word: "".join(terms(language, word, False)) for word in sorted(set(words))}
        assert 30 <= len(words) <= 100, (language, len(words))
        golden[language] = {"words": words, "sentences": sentences, "stop_words": sorted(stop)}
    about = "Written by tests/python/words_reference.py."
    text = json.dumps({"about": about, "languages": golden}, ensure_ascii=False)
    (FOLDER / "golden.json").write_text(text + "\n")
    print(f"{len(golden)} languages, {(FOLDER / 'golden.json').stat().st_size} bytes")


if __name__ == "__main__":
    main()
