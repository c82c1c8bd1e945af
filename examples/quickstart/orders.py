"""Sample orders of three shops: small CSV files, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

SHOPS = ("berlin", "lisbon", "oslo")
PRODUCTS = (("coffee", 3.2), ("tea", 2.8), ("cake", 4.5), ("bread", 2.1))
COLUMNS = "order_id,day,shop,customer,product,quantity,price"

_FIRST_DAY = date(2026, 5, 1)
_DAYS = 61
_MOST_ORDERS = 12
_CUSTOMERS = 40
_SEED = 2026


def write_orders(folder: Path) -> int:
    """Write one file per shop and day below a new folder; return the number of files."""
    files = 0
    for name, text in order_files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        files += 1
    return files


def order_files() -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each file, in the order of days."""
    random = Random(_SEED)  # noqa: S311  (sample data)
    order = 0
    for day in (_FIRST_DAY + timedelta(days=each) for each in range(_DAYS)):
        for shop in SHOPS:
            lines = [COLUMNS]
            for _ in range(random.randint(1, _MOST_ORDERS)):
                order += 1
                product, price = random.choice(PRODUCTS)
                customer, quantity = random.randint(1, _CUSTOMERS), random.randint(1, 5)
                lines.append(f"{order},{day},{shop},{customer},{product},{quantity},{price:.2f}")
            yield f"{shop}/{day}.csv", "\n".join([*lines, ""])
