# Reads the forms of a request: `application/x-www-form-urlencoded` and `multipart/form-data` (RFC 7578).
#
# The body is in memory already, and `limits.body` bounds it. A file goes to `TMPDIR` only when its `path` is asked for. The
# reader is strict: whatever a browser or curl would not send is a `Fnd::BadRequest`.
require "fnd"

module FndWorker
  # Values by name, the last of each; `getall` has all of them. Symbols mean the same names.
  class Values < Hash
    def initialize(pairs = [])
      super()
      @all = {}
      pairs.each do |name, value|
        store(name, value)
        (@all[name] ||= []) << value
      end
    end

    def [](name)
      super(name.to_s)
    end

    def getall(name)
      @all.fetch(name.to_s, []).dup
    end
  end

  # A file of a form.
  class Upload
    NAME_MAX = 255
    attr_reader :name, :filename, :raw_filename, :content_type, :read

    def initialize(name, raw_filename, content_type, data)
      @name, @raw_filename, @content_type, @read = name, raw_filename, content_type, data
      @filename = Upload.base_name(raw_filename)
    end

    # Returns the last component of a file name, which a handler may use in a directory of its own.
    def self.base_name(raw)
      name = Form.strip(raw.split(%r{[/\\]}, -1).last.to_s)
      ["", ".", ".."].include?(name) ? "empty" : name.chars.last(NAME_MAX).join
    end

    def size
      @read.bytesize
    end

    # The content, open for reading.
    def file
      require "stringio"
      @file ||= StringIO.new(@read)
    end

    # A file in `TMPDIR` with the content. It is removed when the call ends, unless the handler has moved it.
    def path
      return @path if @path

      # No other object of this worker has this number, and `TMPDIR` belongs to this worker.
      path = File.join(ENV["TMPDIR"] || "/tmp", "upload-#{Process.pid}-#{object_id}")
      write(path, 0o600)
      @path = path
    end

    # Writes the content to a file that does not exist yet, or into a directory under `filename`.
    def save(destination)
      write(File.directory?(destination) ? File.join(destination, @filename) : destination, 0o666)
    end

    def forget
      File.unlink(@path) if @path
    rescue SystemCallError
      # The handler has moved it.
    end

    private

    def write(path, mode)
      File.open(path, File::WRONLY | File::CREAT | File::EXCL | File::BINARY, mode) { |file| file.write(@read) }
    end
  end

  # The readers. Both return the fields and the files of a body.
  module Form
    PARTS_MAX = 1000
    HEAD_MAX = 8 << 10
    FIELDS_MAX = 10_000
    BOUNDARY = %r{\A[0-9A-Za-z'()+_,./:=?\- ]{0,69}[0-9A-Za-z'()+_,./:=?\-]\z}
    # Spaces are spelled out: what `\s` and `strip` take for space differs between languages, and so would the answers.
    HEADER = /\A([!\#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\x00-\x08\x0a-\x1f\x7f]*)\z/
    # One parameter of a header: a token, or a quoted string in which only the quote may be escaped.
    PARAMETER = /\G;[ \t]*([!\#$%&'*+\-.^_`|~0-9A-Za-z]+)=(?:"((?:[^"\\]|\\[\s\S])*)"|([^ \t";]*))[ \t]*/
    CHARSETS = { "utf-8" => "UTF-8", "utf8" => "UTF-8", "us-ascii" => "US-ASCII", "iso-8859-1" => "ISO-8859-1" }.freeze
    SPACES = [" ", "\t"].freeze

    module_function

    def strip(text)
      from, to = 0, text.size
      from += 1 while from < to && SPACES.include?(text[from])
      to -= 1 while to > from && SPACES.include?(text[to - 1])
      text[from...to]
    end

    def bad(why)
      raise Fnd::BadRequest, why
    end

    def urlencoded(body)
      bad("the form has more than #{FIELDS_MAX} fields") if body.count("&") >= FIELDS_MAX
      pairs = body.b.split("&").reject(&:empty?).map { |pair| pair.split("=", 2) }
      [Values.new(pairs.map { |name, value| [decoded(name.to_s), decoded(value.to_s)] }), Values.new]
    end

    def decoded(bytes)
      bytes = bytes.tr("+", " ").gsub(/%(\h\h)/n) { [$1].pack("H2") }
      bytes.force_encoding(Encoding::UTF_8).scrub
    end

    def multipart(body, content_type)
      body = body.b
      mark = "\r\n--#{boundary(content_type)}".b
      # The line break before the first boundary is optional.
      first = body.start_with?(mark) ? mark.size : mark.size - 2
      bad("the multipart body does not begin with its boundary") unless body.start_with?(mark, mark[2..])
      at, is_last = line_end(body, first)
      bad("the first boundary of the multipart body is not a line of its own") unless at
      fields, files = [], []
      until is_last
        at, is_last, name, value = part(body, at, mark, fields.size + files.size)
        (value.is_a?(Upload) ? files : fields) << [name, value]
      end
      [Values.new(fields), Values.new(files)]
    end

    # Returns where the next part begins, whether there is none, and name and value of this part.
    def part(body, at, mark, before)
      bad("the multipart body has more than #{PARTS_MAX} parts") if before == PARTS_MAX
      length = body.byteslice(at, HEAD_MAX).index("\r\n\r\n")
      bad("the headers of part #{before + 1} do not end within 8 KiB") unless length
      name, filename, kind = headers(body.byteslice(at, length))
      found, after, is_last = content_end(body, at + length + 2, mark)
      # An empty part ends at the line break of its headers.
      from = at + length + 4
      data = body.byteslice(from, [found - from, 0].max)
      return [after, is_last, name, text(data, name, kind)] unless filename

      kind = "application/octet-stream" if kind.to_s.empty?
      [after, is_last, name, Upload.new(name, filename, kind, data)]
    end

    # Returns where a content ends, where the next part begins, and whether there is none.
    def content_end(body, at, mark)
      loop do
        found = body.index(mark, at)
        bad("the multipart body ends before its last boundary") unless found
        after, is_last = line_end(body, found + mark.size)
        return [found, after, is_last] if after

        # The content has the boundary as the beginning of a longer line.
        at = found + 2
      end
    end

    # Returns the end of a boundary's line and whether it is the last one; nil where it is none.
    def line_end(body, at)
      return [at, true] if body.byteslice(at, 2) == "--"

      at += 1 while SPACES.include?(body[at])
      [at + 2, false] if body.byteslice(at, 2) == "\r\n"
    end

    def boundary(content_type)
      value = parameters(content_type)["boundary"].to_s
      BOUNDARY.match?(value) ? value : bad("the content type `multipart/form-data` has no valid `boundary`")
    end

    # Returns name, file name and content type of a part.
    def headers(block)
      block.force_encoding(Encoding::UTF_8)
      bad("the headers of a part are not UTF-8") unless block.valid_encoding?
      known = {}
      lines = block.split("\r\n", -1)
      (lines.empty? ? [""] : lines).each do |line|
        match = HEADER.match(line) || bad("a part has an invalid header line")
        key = match[1].downcase
        bad("a part has the header `#{key}` twice") if known.key?(key)
        known[key] = strip(match[2])
      end
      disposition = known["content-disposition"].to_s
      unless strip(disposition.split(";", 2).first.to_s).casecmp?("form-data")
        bad("a part has no header `Content-Disposition: form-data`")
      end
      found = parameters(disposition)
      bad("a part of the form has no name") unless found.key?("name")
      bad("a part of the form is a multipart body itself") if known["content-type"]&.match?(%r{\Amultipart/}i)
      [found["name"], found["filename"], known["content-type"]]
    end

    # Returns the parameters of a header.
    def parameters(header)
      found, at = {}, header.index(";")
      while at && at < header.size
        match = PARAMETER.match(header, at) || bad("a header has invalid parameters")
        name = match[1].downcase
        bad("a header has the parameter `#{match[1]}` twice") if found.key?(name)
        # Browsers send a quote as `%22`; others escape it. Any other backslash is a part of the value.
        found[name] = match[2] ? match[2].gsub('\\"', '"').gsub("%22", '"') : match[3]
        at = match.end(0)
      end
      found
    end

    def text(data, name, kind)
      charset = (kind.to_s.empty? ? "utf-8" : parameters(kind).fetch("charset", "utf-8")).downcase
      shown = "the field `#{name[0, 64]}`"
      encoding = CHARSETS[charset] || bad("#{shown} has the character set `#{charset[0, 64]}`, which is not supported")
      data.force_encoding(encoding)
      data.valid_encoding? ? data.encode(Encoding::UTF_8) : bad("#{shown} is not #{charset}")
    end
  end
end
