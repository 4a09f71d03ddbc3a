def handler(event, context)
  missing_bracket(
