{# Commits the tables of a run on the branch of the target, unless a model or a test failed. #}
{% macro commit_branch(results) %}
  {%- if results | rejectattr("status", "in", ["success", "pass", "warn", "no-op"]) | list | length == 0 -%}
    COMMIT IF NEEDED {{ target.schema.split(".")[:3] | join(".") }} MESSAGE 'dbt {{ invocation_id }}'
  {%- endif -%}
{% endmacro %}
