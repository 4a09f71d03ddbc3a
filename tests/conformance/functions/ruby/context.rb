def handler(event, context)
  %w[invocation attempt poll trigger deadline traceparent previous].to_h { |name| [name, context[name]] }
end
