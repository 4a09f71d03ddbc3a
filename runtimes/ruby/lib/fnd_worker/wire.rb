# Reads and writes frames on descriptor 3.
module FndWorker
  class Wire
    READY, INVOKE, BODY, RESULT, ERROR, LOG, STOP = *1..7
    FRAME_MAX = 256 << 10
    MORE, OPTIONAL = 1, 2
    HEADER = "VCCvQ<".freeze

    def initialize(descriptor)
      # Two objects, since a buffer for reading must not stand in the way of writing.
      @reader = IO.for_fd(descriptor, "rb", autoclose: false)
      @writer = IO.for_fd(descriptor, "wb", autoclose: false)
      # Programs that the function starts do not hold the socket open.
      @reader.close_on_exec = true
      @writer.sync = true
      @sending = Mutex.new
      # Incomplete messages by call: the type and the content so far.
      @begun = {}
    end

    # Returns the next message, `[type, call, content]`, or nil at the end of the socket.
    def next
      loop do
        length, type, flags, reserved, call = receive(16)&.unpack(HEADER)
        return nil if length.nil?
        raise "fnd sent an invalid frame" if length > FRAME_MAX || reserved != 0

        content = receive(length)
        return nil if content.nil?

        unless [INVOKE, BODY, STOP].include?(type)
          raise "fnd sent a frame of type #{type}" if flags & OPTIONAL == 0

          next
        end
        type, content = joined(call, content) if type == BODY
        return [type, call, content] if flags & MORE == 0

        @begun[call] = [type, content]
      end
    end

    def send(call, type, content)
      frames = "".b
      begin
        piece = content.byteslice(0, FRAME_MAX)
        content = content.byteslice(FRAME_MAX..) || ""
        more = content.empty? ? 0 : MORE
        frames << [piece.bytesize, type, more, 0, call].pack(HEADER) << piece
        type = BODY
      end until content.empty?
      @sending.synchronize { @writer.write(frames) }
    rescue Errno::EPIPE, Errno::ECONNRESET
      # fnd has closed the connection: no caller waits for the answer.
      exit!(0)
    end

    private

    def joined(call, content)
      type, before = @begun.delete(call)
      [type, before << content]
    end

    def receive(size)
      bytes = @reader.read(size)
      bytes if bytes && bytes.bytesize == size
    rescue Errno::ECONNRESET
      nil
    end
  end
end
