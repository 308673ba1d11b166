"""Generated English and Chinese texts and questions; each question is answered by one chunk. The seed is fixed.

A chunk describes one product in one city. Dozens of other chunks have the same product or city, so only both names
together identify the chunk. The question paraphrases the rest of the chunk.
"""

from __future__ import annotations

import random
from typing import NamedTuple

SEED = 20260917
_PRODUCTS_TEXT = (
    "kettle lantern drill saddle violin anchor carpet mirror ladder compass basket hammer clock bench pillow rope "
    "whistle bucket tripod helmet "
)
_PRODUCTS = _PRODUCTS_TEXT.split()
_MATERIALS_TEXT = "copper oak linen glass steel wool bamboo granite leather ceramic "
_MATERIALS = _MATERIALS_TEXT.split()
_CITIES_TEXT = (
    "Oslo Lima Porto Kyoto Tunis Quito Delft Accra Davos Malmo Busan Cusco Turin Hanoi Izmir Leeds Perth Sofia "
    "Basel Dakar Gdansk Ghent Haifa Jaipur Kazan Lyon Mainz Nantes Osaka Padua Riga Seville Tampa Utrecht Vigo "
    "Windhoek Xanten York Zadar Bergen Cadiz Derby Essen Faro Graz Hull Ipswich Jena Kiel Linz "
)
_CITIES = _CITIES_TEXT.split()
_ZH_PRODUCTS_TEXT = (
    "水壶 灯笼 电钻 马鞍 提琴 船锚 地毯 镜子 梯子 罗盘 篮子 铁锤 时钟 长凳 枕头 绳索 口哨 水桶 支架 头盔 "
)
_ZH_PRODUCTS = _ZH_PRODUCTS_TEXT.split()
_ZH_MATERIALS_TEXT = "黄铜 橡木 亚麻 玻璃 精钢 羊毛 竹子 花岗岩 皮革 陶瓷 "
_ZH_MATERIALS = _ZH_MATERIALS_TEXT.split()
_ZH_CITIES_TEXT = (
    "青岛 大连 厦门 苏州 昆明 兰州 西宁 银川 桂林 南宁 合肥 济南 长沙 贵阳 洛阳 开封 绍兴 温州 珠海 佛山 宜昌 襄阳 "
    "泉州 漳州 烟台 威海 潍坊 保定 唐山 邯郸 大同 包头 赤峰 吉林 延吉 牡丹江 佳木斯 齐齐哈尔 鞍山 锦州 丹东 连云港 "
    "扬州 镇江 芜湖 安庆 九江 赣州 湘潭 衡阳 "
)
_ZH_CITIES = _ZH_CITIES_TEXT.split()
_FACTS = (
    (
        "It is painted {} before it leaves the hall",
        "colour does it get",
        ["red", "blue", "green", "white", "black", "yellow"],
    ),
    (
        "A finished piece is kept for {} weeks in the cellar",
        "long is it stored",
        ["two", "three", "four", "five", "six"],
    ),
    (
        "Every {}th piece is taken apart and looked at",
        "often is one checked",
        ["ninth", "tenth", "fortieth", "fiftieth"],
    ),
    (
        "Wagons carry it to the harbour on {}",
        "day is it shipped",
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
    ),
    (
        "The master of the workshop is called {}",
        "person leads the making",
        ["Ada", "Bruno", "Clara", "David", "Emma", "Felix"],
    ),
    ("Its price went up by {} percent after the flood", "increase did the cost see", ["four", "six", "seven", "nine"]),
)
_ZH_FACTS = (
    ("出厂之前它会刷上{}漆", "外表涂什么颜色", ["红色", "蓝色", "绿色", "白色", "黑色", "黄色"]),
    ("成品要在地下室放{}个星期", "存放多长时间", ["两", "三", "四", "五", "六"]),
    ("每{}件抽出一件拆开查看", "多久检验一次", ["九", "十", "四十", "五十"]),
    ("马车在{}把它送到港口", "哪天发运", ["星期一", "星期二", "星期三", "星期四", "星期五"]),
    ("作坊的师傅名叫{}", "由谁负责制作", ["阿达", "布鲁", "克拉", "大卫", "爱玛", "菲力"]),
    ("洪水以后价格上涨了百分之{}", "成本增加了多少", ["四", "六", "七", "九"]),
)


class Question(NamedTuple):
    """A question, the number of the chunk that answers it, and its language."""

    text: str
    chunk: int
    language: str


class _Entry(NamedTuple):
    text: str
    question: str
    language: str


def _english(random_: random.Random, product: str, material: str, city: str) -> _Entry:
    """Return a paragraph of four sentences in random order, one of which names another product and city."""
    other_city, other_product = random_.choice(_CITIES), random_.choice(_PRODUCTS)
    facts = random_.sample(_FACTS, 3)
    sentences = [fact[0].format(random_.choice(fact[2])) for fact in facts]
    sentences.append(f"Parts for a {other_product} from {other_city} pass through the same gate")
    random_.shuffle(sentences)
    text = f"The {material} {product} of {city} is a small line. " + ". ".join(sentences) + "."
    return _Entry(text, f"Regarding {product}s out of {material} made in {city}, what {facts[0][1]}?", "English")


def _chinese(random_: random.Random, product: str, material: str, city: str) -> _Entry:
    other_city, other_product = random_.choice(_ZH_CITIES), random_.choice(_ZH_PRODUCTS)
    facts = random_.sample(_ZH_FACTS, 3)
    sentences = [fact[0].format(random_.choice(fact[2])) for fact in facts]
    sentences.append(f"从{other_city}来的{other_product}零件也走同一道门")
    random_.shuffle(sentences)
    text = f"{city}的{material}{product}产量不大。" + "。".join(sentences) + "。"
    return _Entry(text, f"请问{city}生产的{product}，用{material}做的那种，{facts[0][1]}？", "Chinese")


def _generate(count: int) -> list[_Entry]:
    random_ = random.Random(SEED)
    entries: list[_Entry] = []
    half = -(-count // 2)
    for write, products, materials, cities in (
        (_english, _PRODUCTS, _MATERIALS, _CITIES),
        (_chinese, _ZH_PRODUCTS, _ZH_MATERIALS, _ZH_CITIES),
    ):
        every = [(product, material, city) for product in products for material in materials for city in cities]
        entries += [write(random_, *sample) for sample in random_.sample(every, min(half, len(every)))]
    return entries


def generate_chunks(count: int) -> list[str]:
    """Return at most 20,000 chunk texts, half of them in English."""
    return [one.text for one in _generate(count)]


def generate_questions(chunks: int, count: int) -> list[Question]:
    """Return ``count`` questions about the result of `generate_chunks` for ``chunks``."""
    entries = _generate(chunks)
    sample = random.Random(SEED + 1).sample(range(len(entries)), count)
    return [Question(entries[number].question, number, entries[number].language) for number in sample]
