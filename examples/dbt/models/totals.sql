select count(*) as orders, sum(price) as price
from {{ ref("prices") }}
