raise SystemExit(75)
