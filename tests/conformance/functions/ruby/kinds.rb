def handler(event, context)
  case event["data"]
  when "error" then raise ArgumentError, "it broke"
  when "transient" then raise Fnd::TransientException, "it broke"
  when "failed" then raise Fnd::FailedException, "it broke"
  when "again"
    seen = context.dig("previous", "seen").to_i
    raise Fnd::ExecuteAgainException.new("it broke", seen: seen + 1)
  end
  "fine"
end
