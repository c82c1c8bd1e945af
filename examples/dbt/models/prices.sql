select id, price * 2 as price
from lakefs.{{ target.schema.split(".")[1:3] | join(".") }}.`tables/orders`
