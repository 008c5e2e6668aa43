"""Toy corpora into Japanese, Thai and Chinese: sentences made from small lexicons, with an English side.

`write_corpus` writes each set as `NAME.en` and `NAME.target`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product
from pathlib import Path

ENGLISH = {
    "who": ["the teacher", "my mother", "the doctor", "our friend", "the child", "a student", "the cat"],
    "what": ["bread", "two books", "water", "a letter", "three apples", "the newspaper", "Wi-Fi"],
    "did": ["bought", "found", "lost", "saw", "brought", "forgot"],
    "when": ["yesterday", "today", "on 3 May", "on Monday", "at 10:30", "last year"],
}
ORDERS = {
    "japanese": "{when}{who}は{what}を{did}。",
    "thai": "{who}{did}{what}{when}",
    "chinese": "{when}，{who}{did}{what}。",
}
WORDS = {
    "japanese": {
        "who": ["先生", "わたしの母", "お医者さん", "ともだち", "子ども", "がくせい", "ネコ"],
        "what": ["パン", "本を2さつ", "水", "手紙", "リンゴを3つ", "しんぶん", "Wi-Fi"],
        "did": ["買いました", "見つけました", "なくしました", "見ました", "もってきました", "わすれました"],
        "when": ["きのう、", "きょう、", "5月3日に", "月曜日に", "10:30に", "去年、"],
    },
    "thai": {
        "who": ["ครู", "แม่ของฉัน", "หมอ", "เพื่อนของเรา", "เด็ก", "นักเรียน", "แมว"],
        "what": ["ขนมปัง", "หนังสือสองเล่ม", "น้ำ", "จดหมาย", "แอปเปิ้ลสามลูก", "หนังสือพิมพ์", "Wi-Fi"],
        "did": ["ซื้อ", "พบ", "ทำหาย", "เห็น", "นำ", "ลืม"],
        "when": ["เมื่อวานนี้", "วันนี้", " วันที่ 3 พฤษภาคม", "วันจันทร์", " 10:30 น.", "ปีที่แล้ว"],
    },
    "chinese": {
        "who": ["老师", "我的母亲", "医生", "我们的朋友", "孩子", "学生", "猫"],
        "what": ["面包", "两本书", "水", "一封信", "三个苹果", "报纸", "Wi-Fi"],
        "did": ["买了", "找到了", "弄丢了", "看见了", "带来了", "忘记了"],
        "when": ["昨天", "今天", "5月3日", "星期一", "10:30", "去年"],
    },
}


def pairs(language: str, num_words: int) -> list[tuple[str, str]]:
    """All sentences with the first words of each lexicon, in an order that is always the same."""
    made: list[tuple[str, str]] = []
    for places in product(range(num_words), repeat=len(ENGLISH)):
        chosen = dict(zip(ENGLISH, places, strict=True))
        english = {part: ENGLISH[part][place] for part, place in chosen.items()}
        target = {part: WORDS[language][part][place] for part, place in chosen.items()}
        made.append(("{who} {did} {what} {when}.".format(**english), ORDERS[language].format(**target)))
    random.Random(1).shuffle(made)
    return made


def write_corpus(language: str, folder: Path, sizes: Mapping[str, int], num_words: int = 6) -> None:
    """Disjoint sets of sentences, each of a size and a name."""
    lines = iter(pairs(language, num_words))
    for name, size in sizes.items():
        chosen = [next(lines) for _ in range(size)]
        for side, suffix in enumerate(("en", "target")):
            text = "".join(pair[side] + "\n" for pair in chosen)
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
