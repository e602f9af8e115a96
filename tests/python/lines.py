"""The lines of the tokenizer fixture: real English, made-up Korean, and everything that trips tokenizers."""

import random
import unicodedata

KOREAN = {
    "subject": "나는 우리는 학생이 고양이가 서울은 제주도가 과학자들이 대한민국은 세종대왕은 도서관이 바다가 그녀는 열차가 아이들은".split(),
    "object": "책을 한글을 김치찌개를 질문을 논문을 비행기를 자전거를 음악을 별빛을 역사를 커피를 사진을 노트북을 편지를".split(),
    "place": "도서관에서 부산에서 학교에서 집에서 경복궁에서 회사에서 한강공원에서 시장에서 산에서 인터넷에서".split(),
    "verb": "읽는다. 배웠다. 좋아합니다! 찾고 있었습니까? 만들었어요. 보냈을까? 연구하였다. 잃어버렸다... 마셨지요. 기억하겠습니다.".split(),
    "extra": "2024년에 어제 30% AI GPT-4로 '오늘' (서울) 매우 ㅋㅋㅋ ㅠㅠ 제1회 10km를 e-mail로 1,000원으로".split(),
}

EMOJI = (
    "👩‍👩‍👧‍👦 👨🏽‍💻 🏳️‍🌈 🇰🇷 🇺🇸 1️⃣ ❤️ ❤ ☺️ 🤷🏻‍♀️ 🧑‍🚀 😀 🫠 🏴󠁧󠁢󠁥󠁮󠁧󠁿 👍🏿 ♾️ ™️ ©"
).split()

RIGHT_TO_LEFT = [
    "من فاز بكأس العالم عام ٢٠١٨؟",
    "ما هي عاصمة المغرب؟",
    "מי כתב את ספר התהילים?",
    "שָׁלוֹם עֲלֵיכֶם",
    "اَلسَّلَامُ عَلَيْكُمْ",
    "English then עברית then English 123 again",
    "\u202eright to left override\u202c done",
    "پایتخت ایران کجاست؟ نمی‌دانم",
]

# Blocks to draw random characters from; unassigned code points are part of the test.
BLOCKS = [
    (0x00A0, 0x017F), (0x0180, 0x024F), (0x0250, 0x02FF), (0x0300, 0x036F), (0x0370, 0x03FF), (0x0400, 0x052F),
    (0x0590, 0x05FF), (0x0600, 0x06FF), (0x0900, 0x097F), (0x0E00, 0x0E7F), (0x1100, 0x11FF), (0x1E00, 0x1FFF),
    (0x2000, 0x206F), (0x2070, 0x20CF), (0x2100, 0x214F), (0x2190, 0x23FF), (0x2500, 0x27BF), (0x3000, 0x30FF),
    (0x3130, 0x318F), (0x3400, 0x34FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xE0FF), (0xF900, 0xFAFF),
    (0xFB00, 0xFDFF), (0xFE00, 0xFE0F), (0xFE20, 0xFEFF), (0xFF00, 0xFFEF), (0xFFF0, 0xFFFF), (0x1D400, 0x1D7FF),
    (0x1F300, 0x1FAFF), (0x20000, 0x2A6DF), (0x2F800, 0x2FA1F), (0xE0000, 0xE007F), (0x10FFF0, 0x10FFFF),
]

BY_HAND = [
    "",
    " ",
    "\t\n\r ",
    "\u00a0\u2003\u3000",
    "\x00",
    "nul\x00inside a\x00word",
    "\x00\x00 \x00",
    "bell\x07 back\x08space \x1b[31mred\x1b[0m \x7f delete",
    "vertical\x0btab form\x0cfeed",
    "c1 \x80\x85\x9f controls",
    "line one\nline two\r\nline three\rline four\u2028line five\u2029line six",
    "\ufeffbyte order mark",
    "soft\u00adhyphen zero\u200bwidth non\u200cjoiner join\u200der word\u2060joiner",
    "replacement \ufffd character \ufffd\ufffd",
    "private \ue000\uf8ff use",
    "noncharacter \uffff \U0010ffff",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "b" * 5000,
    "né" * 60,
    "漢" * 300,
    "한" * 120,
    "word " * 400,
    "x" + "\u0301" * 200,
    "https://example.com/" + "a/" * 80 + "?q=1&r=%20",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "café cafe\u0301 CAFÉ CAFE\u0301",
    "Ångström A\u030angstro\u0308m Å",
    "İstanbul ISTANBUL ıstanbul i̇stanbul",
    "straße STRASSE ẞ ß",
    "ΟΔΥΣΣΕΥΣ Οδυσσεύς ς σ",
    "ﬁne ﬂow ﬃ ǆ Ǆ ǅ",
    "Ⅷ ⅷ ① ② ½ ¾ ² ³ ⁴",
    "ｆｕｌｌｗｉｄｔｈ ＡＢＣ １２３",
    "𝓼𝓬𝓻𝓲𝓹𝓽 𝔣𝔯𝔞𝔨𝔱𝔲𝔯 𝟘𝟙𝟚",
    "Zalgo: Z̸̡̛a̷̢͝l̶̨̛g̴̢͠o̵̧͘",
    "Tiếng Việt có dấu, Tie\u0302\u0301ng Vie\u0323\u0302t",
    "हिन्दी में प्रश्न क्या है?",
    "ภาษาไทยไม่มีช่องว่าง",
    "日本語のテスト、カタカナとひらがな。",
    "中文分词测试，没有空格",
    "가\u1100\u1161 각\u1100\u1161\u11a8 한글 (합성과 분해)",
    unicodedata.normalize("NFD", "대한민국의 수도는 서울특별시입니다."),
    unicodedata.normalize("NFKD", "①번 문제: ㈜한국 ㎏"),
    "ㄱㄴㄷㄹ ㅏㅑㅓㅕ ㅋㅋㅋㅋ",
    "[CLS] typed by hand [SEP] and [MASK] [PAD] [UNK]",
    "[cls] [ sep ] [SEP",
    "##ing ##s #tag @user $5 50% a+b=c",
    "don't won’t ‘quoted’ “double” —dash– …",
    "who won super bowl 50",
    "WHO WON SUPER BOWL 50???",
    "C++ C# .NET F# R&B AT&T",
    "1,234.56 -0.5e-10 0x1F 192.168.0.1 2024-01-31T12:00:00Z",
    "e\u0301\u0327 \u0301 \u0327alone",
    "😀😀😀",
    "👩‍👩‍👧‍👦family👨‍👩‍👧",
    "flag🇰🇷flag🇰",
    "\u200d\ufe0f\u20e3",
    "{\"json\": [1, 2, \"\\u0000\"]} <html>&amp;</html>",
    "tab\tseparated\tvalues",
    "   leading and trailing   ",
    "a\u00a0b\u2009c\u202fd\u205fe",
    "\u061c\u200e\u200f\u2066\u2069 marks",
    "ꦲꦏ꧀ꦱꦫ 𐍈 𒀀 𓀀 🜁",
]


def korean_sentence(rng):
    order = ["extra", "subject", "place", "object", "verb"]
    kept = [part for part in order if part in ("subject", "verb") or rng.random() < 0.6]
    sentence = " ".join(rng.choice(KOREAN[part]) for part in kept)
    return unicodedata.normalize("NFD", sentence) if rng.random() < 0.15 else sentence


def random_block_line(rng):
    low, high = rng.choice(BLOCKS)
    words = ["".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 12))) for _ in range(rng.randint(1, 8))]
    return " ".join(words)


def combining_line(rng, word_list):
    marks = [chr(c) for c in range(0x0300, 0x0370)] + ["\u20dd", "\u0483", "\u05b8", "\u064b", "\u093c", "\u3099"]
    words = rng.sample(word_list, 5)
    return " ".join("".join(c + rng.choice(marks) * (rng.random() < 0.3) for c in word) for word in words)


def control_line(rng, word_list):
    control = [chr(c) for c in range(32)] + [chr(c) for c in range(0x7F, 0xA0)] + ["\u200b", "\u00ad", "\ufeff"]
    return "".join(word + rng.choice(control) for word in rng.sample(word_list, 8))


def emoji_line(rng, word_list):
    parts = rng.sample(word_list, 3) + [rng.choice(EMOJI) for _ in range(rng.randint(1, 4))]
    rng.shuffle(parts)
    return rng.choice(["", " "]).join(parts)


def token_lines(squad, count, seed):
    """`count` lines: the hand-made ones, the generated kinds, and real English for the rest."""
    rng = random.Random(seed)
    paragraphs = [p for _, ps, _ in squad for p in ps]
    questions = [q for _, _, qs in squad for q in qs]
    word_list = sorted({w for p in paragraphs[::20] for w in p.split()})
    lines = BY_HAND + RIGHT_TO_LEFT
    lines += [korean_sentence(rng) for _ in range(350)]
    lines += [random_block_line(rng) for _ in range(350)]
    lines += [combining_line(rng, word_list) for _ in range(120)]
    lines += [control_line(rng, word_list) for _ in range(120)]
    lines += [emoji_line(rng, word_list) for _ in range(120)]
    lines += [rng.choice(paragraphs) for _ in range(60)]
    lines += rng.sample(questions, count - len(lines))
    return lines
