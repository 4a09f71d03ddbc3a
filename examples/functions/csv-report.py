"""Turns CSV into a JSON report: for each column of numbers its sum, least, greatest and mean.

    fndctl invoke csv-report -d @sales.csv
"""
# /// fnd
# description = "Sums up a CSV file"
# on_load = false
# [limits]
# body = "50M"
# memory = "512M"
# timeout = "2m"
# ///
import csv
import json
import sys


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


reader = csv.DictReader(sys.stdin)
columns: dict[str, list[float | None]] = {name: [] for name in reader.fieldnames or []}
if not columns:
    print("the payload has no header line", file=sys.stderr)
    sys.exit(65)

rows = 0
for row in reader:
    rows += 1
    for name in columns:
        columns[name].append(number(row[name] or ""))

report = {
    name: {"sum": sum(values), "min": min(values), "max": max(values), "mean": sum(values) / rows}
    for name, values in columns.items()
    if rows and None not in values
}
print(json.dumps({"rows": rows, "columns": report}))
