"""Units: what a word after a number measures, and by which factor it converts within its quantity."""

import re
from fractions import Fraction

# unit: (quantity, factor to the quantity's first unit, names)
TABLE: dict[str, tuple[str, Fraction, str]] = {
    "m": ("length", Fraction(1), "m meter metre"),
    "mm": ("length", Fraction(1, 1000), "mm millimeter millimetre"),
    "cm": ("length", Fraction(1, 100), "cm centimeter centimetre"),
    "dm": ("length", Fraction(1, 10), "dm decimeter decimetre"),
    "km": ("length", Fraction(1000), "km kilometer kilometre"),
    "in": ("length", Fraction(254, 10000), "in inch inches"),
    "ft": ("length", Fraction(3048, 10000), "ft foot feet"),
    "yd": ("length", Fraction(9144, 10000), "yd yard"),
    "mi": ("length", Fraction(1609344, 1000), "mi mile"),
    "g": ("mass", Fraction(1), "g gram gramme"),
    "mg": ("mass", Fraction(1, 1000), "mg milligram"),
    "kg": ("mass", Fraction(1000), "kg kilogram kilo"),
    "t": ("mass", Fraction(10**6), "tonne"),
    "lb": ("mass", Fraction(45359237, 100000), "lb pound"),
    "oz": ("mass", Fraction(45359237, 1600000), "oz ounce"),
    "s": ("time", Fraction(1), "s sec second"),
    "ms": ("time", Fraction(1, 1000), "ms millisecond"),
    "min": ("time", Fraction(60), "min minute"),
    "h": ("time", Fraction(3600), "h hr hour"),
    "day": ("time", Fraction(86400), "day"),
    "week": ("time", Fraction(604800), "week wk"),
    "month": ("months", Fraction(1), "month"),
    "year": ("months", Fraction(12), "year yr"),
    "l": ("volume", Fraction(1), "l L liter litre"),
    "ml": ("volume", Fraction(1, 1000), "ml mL milliliter millilitre"),
    "gal": ("gallons", Fraction(1), "gal gallon"),
    "qt": ("gallons", Fraction(1, 4), "qt quart"),
    "°": ("angle", Fraction(1), "degree deg"),
    "degC": ("celsius", Fraction(1), "degc celsius"),
    "degF": ("fahrenheit", Fraction(1), "degf fahrenheit"),
    "rad": ("radian", Fraction(1), "rad radian"),
    "$": ("dollar", Fraction(1), "$ dollar USD usd"),
    "¢": ("dollar", Fraction(1, 100), "cent"),
    "€": ("euro", Fraction(1), "€ euro EUR eur"),
    "£": ("sterling", Fraction(1), "£ GBP"),
    "¥": ("yen", Fraction(1), "¥ yen yuan"),
    "N": ("force", Fraction(1), "newton"),
    "J": ("energy", Fraction(1), "joule"),
    "W": ("power", Fraction(1), "watt"),
    "mph": ("speed", Fraction(1609344, 3600000), "mph"),
    "kph": ("speed", Fraction(1000, 3600), "kph kmh"),
}
UNIT_OF = {name: unit for unit, (_, _, names) in TABLE.items() for name in names.split()}
MAGNITUDES = {
    "dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
# Letters that are far more often a symbol than a unit unless they are in \text{}.
SYMBOLS = frozenset("mgshlLNJWt")


def unit_name(word: str) -> str | None:
    """The unit in one spelling; None if it is not in the table."""
    for name in (word, word.lower(), word.lower().removesuffix("s"), word.lower().removesuffix("es")):
        if name in UNIT_OF:
            return UNIT_OF[name]
    return None


def is_unit_word(word: str) -> bool:
    """Whether bare letters are a unit, a magnitude or a part of a unit."""
    if word.lower().removesuffix("s") in MAGNITUDES or word in POWERS or word == "per":
        return True
    return len(word) > 1 and word != "in" and unit_name(word) is not None


def magnitude(word: str) -> int | None:
    """3 million: the factor of the word."""
    return MAGNITUDES.get(word.lower().strip().removesuffix("s"))


Dimension = tuple[tuple[tuple[str, int], ...], Fraction]


def dimension(unit: str) -> Dimension | None:
    """Quantities with their powers, and the factor; None if a word of it is in no table."""
    powers: dict[str, int] = {}
    factor = Fraction(1)
    sign, waiting = 1, 1
    for word, power in re.findall(r"([^\W\d_]+|/|[°$€£¥¢])(?:\^(-?\d))?", unit.replace("²", "^2").replace("³", "^3")):
        if word in ("/", "per"):
            sign = -1
            continue
        if word in POWERS:
            waiting = POWERS[word]
            if word.endswith("ed") and powers:  # "centimeters squared"
                last = list(powers)[-1]
                factor *= factor ** (waiting - 1)
                powers[last] *= waiting
                waiting = 1
            continue
        name = unit_name(word) or (word if word in TABLE else None)
        if name is None:
            return None
        quantity, one, _ = TABLE[name]
        times = sign * waiting * int(power or 1)
        powers, waiting, sign = {**powers, quantity: powers.get(quantity, 0) + times}, 1, 1
        factor *= one**times
        if quantity == "volume":  # a litre is a cubic decimetre
            powers["length"] = powers.pop("volume") * 3
            factor *= Fraction(1, 1000) ** times
        elif quantity == "speed":
            powers.pop("speed")
            powers |= {"length": times, "time": -times}
    return (tuple(sorted((name, power) for name, power in powers.items() if power)), factor) if powers else None


def same_label(one: str, other: str) -> bool:
    """Whether two words for what is counted agree, a plural apart."""
    return one.lower().strip(" .").removesuffix("s") == other.lower().strip(" .").removesuffix("s")
