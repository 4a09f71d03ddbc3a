# The names that a function can use: answers with a status, and the exceptions that say how a call failed. The shim has
# required this file already.
module Fnd
  # Asks for a retry: the attempt ends as `transient`.
  class TransientException < StandardError; end

  # Says that a retry is useless: the attempt ends as `failed`.
  class FailedException < StandardError; end

  # Says that the work is not done yet: the function is called again after `[poll] repeat`, with the keywords as
  # `previous`.
  class ExecuteAgainException < StandardError
    attr_reader :data

    def initialize(message = nil, **data)
      super(message)
      @data = data
    end
  end

  # Says that the caller sent something invalid: the call is answered with status 400 and this text.
  class BadRequest < StandardError; end

  # An answer with a status and headers. The body is text, bytes, nil, or anything JSON.
  Response = Struct.new(:body, :status, :headers) do
    def initialize(body = nil, status: 200, headers: {})
      super(body, status, headers)
    end
  end
end
