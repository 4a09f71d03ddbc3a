<?php
// Reads and writes frames on descriptor 3.

namespace FndWorker;

final class Wire
{
    public const READY = 1, INVOKE = 2, BODY = 3, RESULT = 4, ERROR = 5, LOG = 6, STOP = 7;
    private const FRAME_MAX = 256 << 10;
    private const MORE = 1, OPTIONAL = 2;

    private $reader;
    private $writer;
    /** The content so far of the message that is not complete. A worker of php has one call at a time. */
    private string $begun = '';

    public function __construct()
    {
        $this->reader = fopen('php://fd/3', 'rb');
        $this->writer = fopen('php://fd/3', 'wb');
        stream_set_chunk_size($this->reader, self::FRAME_MAX);
    }

    /** Returns the next message, `[type, call, content]`, or null at the end of the socket. */
    public function next(): ?array
    {
        while (($header = $this->receive(16)) !== null) {
            ['length' => $length, 'type' => $type, 'flags' => $flags, 'reserved' => $reserved, 'call' => $call]
                = unpack('Vlength/Ctype/Cflags/vreserved/Pcall', $header);
            if ($length > self::FRAME_MAX || $reserved !== 0) {
                throw new \UnexpectedValueException('fnd sent an invalid frame');
            }
            $content = $this->receive($length);
            if ($content === null) {
                return null;
            }
            if (!in_array($type, [self::INVOKE, self::BODY, self::STOP], true)) {
                if ($flags & self::OPTIONAL) {
                    continue;
                }
                throw new \UnexpectedValueException("fnd sent a frame of type $type");
            }
            if ($type === self::STOP) {
                return [$type, $call, ''];
            }
            $this->begun .= $content;
            if (!($flags & self::MORE)) {
                [$content, $this->begun] = [$this->begun, ''];
                return [self::INVOKE, $call, $content];
            }
        }
        return null;
    }

    public function send(int $call, int $type, string $content): void
    {
        $at = 0;
        do {
            $piece = substr($content, $at, self::FRAME_MAX);
            $at += self::FRAME_MAX;
            $more = $at < strlen($content) ? self::MORE : 0;
            $this->write(pack('VCCvP', strlen($piece), $type, $more, 0, $call) . $piece);
            $type = self::BODY;
        } while ($more);
    }

    private function write(string $bytes): void
    {
        while ($bytes !== '') {
            $sent = @fwrite($this->writer, $bytes);
            if (!$sent) {
                // fnd has closed the connection: no caller waits for the answer.
                exit(0);
            }
            $bytes = (string) substr($bytes, $sent);
        }
    }

    private function receive(int $size): ?string
    {
        $bytes = '';
        while (strlen($bytes) < $size) {
            $got = @fread($this->reader, $size - strlen($bytes));
            if ($got === false || $got === '') {
                return null;
            }
            $bytes .= $got;
        }
        return $bytes;
    }
}
