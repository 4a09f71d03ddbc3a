# Makes the messages to fnd: results, failures, log records.
require "json"
require "fnd"

module FndWorker
  module Answer
    # Raised if the value that the handler returned cannot be sent.
    class BadAnswer < StandardError; end

    # Largest text of a log record or a failure in characters; a larger frame would end the worker.
    TEXT_MAX = 16 << 10
    STACK_MAX = 32 << 10
    # Levels of nesting of a value.
    DEPTH_MAX = 1000
    KINDS = {
      "TransientException" => "transient",
      "FailedException" => "failed",
      "ExecuteAgainException" => "execute-again",
      "BadAnswer" => "bad-answer",
    }.freeze
    EXITS = { 75 => "transient", 65 => "failed", 99 => "execute-again" }.freeze
    HERE = File.dirname(__dir__, 2)
    RESPONSE_KEYS = %w[status headers body].freeze

    module_function

    # Returns the content of a Result.
    def result(value)
      head = {}
      value = response(value, head)
      unless value.nil?
        value, type = body(value)
        head["content_type"] ||= type
        head["data"] = value.bytesize
      end
      head = JSON.generate(head)
      [head.bytesize].pack("V") << head.b << value.to_s.b
    end

    def body(value)
      return [json(value), "application/json"] unless value.is_a?(String)
      return [value, "application/octet-stream"] if value.encoding == Encoding::BINARY || !value.valid_encoding?

      [value.encode(Encoding::UTF_8), "text/plain; charset=utf-8"]
    rescue EncodingError => error
      raise BadAnswer, "the handler returned text that cannot be UTF-8: #{error.message}"
    end

    def json(value)
      checked(value, 0)
      JSON.generate(value, max_nesting: DEPTH_MAX + 1)
    rescue JSON::GeneratorError, JSON::NestingError, EncodingError => error
      raise BadAnswer, "the handler returned a value that is not text, bytes or JSON: #{error.message}"
    end

    # Refuses objects of which `JSON.generate` would write only the name.
    def checked(value, depth)
      raise BadAnswer, "the handler returned a value that is nested too deeply, or contains itself" if depth > DEPTH_MAX

      case value
      when nil, true, false, String, Symbol, Integer, Float then nil
      when Hash then value.each_value { |item| checked(item, depth + 1) }
      when Array then value.each { |item| checked(item, depth + 1) }
      else
        own = value.respond_to?(:to_json) && value.method(:to_json).owner
        return if own && !own.name.to_s.start_with?("JSON::")

        raise BadAnswer, "the handler returned a value that is not text, bytes or JSON: #{value.class}"
      end
    end

    # Takes status and headers out of an answer that has them, and returns its body.
    def response(value, head)
      if value.is_a?(Hash)
        keys = value.transform_keys(&:to_s)
        # A hash is data, unless it has only the keys of a response.
        return value unless keys.size > 1 && (keys.keys - RESPONSE_KEYS).empty? && status?(keys["status"])

        status, headers, content = keys.values_at(*RESPONSE_KEYS)
      elsif value.is_a?(Fnd::Response)
        status, headers, content = value.status, value.headers, value.body
      else
        return value
      end
      unless status?(status)
        raise BadAnswer, "the handler answered with status #{status.inspect}: expected a number from 200 to 599"
      end

      head["status"] = status
      # Of an array each item is a header of its own, as several cookies are.
      pairs = (headers || {}).flat_map do |name, value|
        (value.is_a?(Array) ? value : [value]).map { |text| [name.to_s.downcase, text.to_s] }
      end
      pairs.each { |name, text| head["content_type"] = text if name == "content-type" }
      pairs.reject! { |name, _| %w[content-type content-length].include?(name) }
      head["headers"] = pairs unless pairs.empty?
      content
    end

    def status?(value)
      value.is_a?(Integer) && value.between?(200, 599)
    end

    # Returns the content of an Error.
    def failure(error, loading: false)
      kind = loading ? "error" : kind(error)
      answer = { "kind" => kind, "message" => message(error) }
      answer["stack"] = stack(error) if kind == "error"
      if kind == "execute-again"
        begin
          data = error.respond_to?(:data) ? error.data : nil
          json(data)
          return JSON.generate(answer.merge("data" => data), max_nesting: DEPTH_MAX + 2)
        rescue BadAnswer => why
          reason = why.message.sub("the handler returned", "execute again: the data is")
          answer = { "kind" => "bad-answer", "message" => reason }
        end
      end
      JSON.generate(answer)
    end

    def kind(error)
      return EXITS.fetch(error.status, "error") if error.is_a?(SystemExit)

      # Compared by name, since a function may have its own copy of the SDK.
      names = error.class.ancestors.map { |known| known.name.to_s.split("::").last }
      KINDS[names.find { |name| KINDS.key?(name) }] || "error"
    end

    def message(error)
      text = readable(error.message)
      case error
      when SystemExit
        # `abort` has a text, `exit` only the word "exit".
        return text == "exit" ? "exit #{error.status}" : text
      when SyntaxError
        # The source code and a mark below it follow.
        text = text.lines.first.to_s.chomp
      when NameError, KeyError
        # Ruby 3.1 adds the source code, all versions similar names.
        text = text[/\A.*?(?=\n\n|\nDid you mean\?|\z)/m]
      end
      text = error.class.name.to_s if text.empty?
      text.size <= TEXT_MAX ? text : "#{text[0, TEXT_MAX]}..."
    end

    # Returns the error as Ruby shows it, without the shim's frames.
    def stack(error)
      lines = readable(error.full_message(highlight: false, order: :top)).lines
      text = lines.reject { |line| line.start_with?("\tfrom #{HERE}") }.join
      text.size <= STACK_MAX ? text : "...#{text[-STACK_MAX..]}"
    rescue StandardError => why # an exception whose own text fails
      "#{error.class} (its stack failed: #{why.class})"
    end

    # Returns the content of a Log.
    def record(level, text, fields)
      answer = { "time_ms" => (Time.now.to_r * 1000).to_i, "level" => level, "message" => readable(text)[0, TEXT_MAX] }
      unless fields.empty?
        encoded = begin
          json(fields)
        rescue BadAnswer
          JSON.generate(fields.to_h { |name, value| [readable(name), readable(value)] })
        end
        answer["fields"] = JSON.parse(encoded, max_nesting: DEPTH_MAX) if encoded.bytesize <= TEXT_MAX
      end
      JSON.generate(answer)
    end

    # Returns any value as text that JSON can have.
    def readable(value)
      value.to_s.dup.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
    end
  end
end
