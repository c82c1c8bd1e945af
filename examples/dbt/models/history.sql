{{ config(materialized="incremental", incremental_strategy="append") }}
select id, price
from {{ ref("prices") }}
