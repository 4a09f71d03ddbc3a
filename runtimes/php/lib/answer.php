<?php
// Makes the messages to fnd: results, failures, log records.

namespace FndWorker;

/** Thrown if the value that the handler returned cannot be sent. */
final class BadAnswer extends \Exception
{
}

final class Answer
{
    /** Largest text of a log record or a failure in bytes; a larger frame would end the worker. */
    private const TEXT_MAX = 16 << 10;
    private const STACK_MAX = 32 << 10;
    private const KINDS = [
        \Fnd\TransientException::class => 'transient',
        \Fnd\FailedException::class => 'failed',
        \Fnd\ExecuteAgainException::class => 'execute-again',
        BadAnswer::class => 'bad-answer',
    ];
    private const FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;
    /** For texts that nobody has checked. */
    private const READABLE = self::FLAGS | JSON_INVALID_UTF8_SUBSTITUTE;

    /** Returns the content of a Result. */
    public static function result(mixed $value): string
    {
        $head = [];
        $value = self::response($value, $head);
        if ($value !== null) {
            [$value, $type] = self::body($value);
            $head['content_type'] ??= $type;
            $head['data'] = strlen($value);
        }
        $head = $head === [] ? '{}' : json_encode($head, self::READABLE);
        return pack('V', strlen($head)) . $head . $value;
    }

    private static function body(mixed $value): array
    {
        if (is_string($value)) {
            // Strings of php are bytes; those that are text are sent as text.
            $isText = preg_match('//u', $value) === 1 && !str_contains($value, "\0");
            return [$value, $isText ? 'text/plain; charset=utf-8' : 'application/octet-stream'];
        }
        return [self::json($value, 'the handler returned a value that is not text, bytes or JSON'), 'application/json'];
    }

    private static function json(mixed $value, string $problem): string
    {
        try {
            return json_encode($value, self::FLAGS, Payload::DEPTH_MAX);
        } catch (\Throwable $error) {
            throw new BadAnswer("$problem: {$error->getMessage()}");
        }
    }

    /** Takes status and headers out of an answer that has them, and returns its body. */
    private static function response(mixed $value, array &$head): mixed
    {
        if (is_array($value) || $value instanceof \stdClass) {
            $fields = (array) $value;
            // An array is data, unless it has only the keys of a response.
            $others = array_diff(array_keys($fields), ['status', 'headers', 'body']);
            if (count($fields) < 2 || $others !== [] || !self::isStatus($fields['status'] ?? null)) {
                return $value;
            }
            $value = new \Fnd\Response($fields['body'] ?? null, $fields['status'], (array) ($fields['headers'] ?? []));
        }
        if (!$value instanceof \Fnd\Response) {
            return $value;
        }
        if (!self::isStatus($value->status)) {
            $status = var_export($value->status, true);
            throw new BadAnswer("the handler returned a response with status $status: expected a number from 200 to 599");
        }
        $head['status'] = $value->status;
        foreach ($value->headers as $name => $texts) {
            $name = strtolower($name);
            // Of an array each item is a header of its own, as several cookies are.
            foreach (is_array($texts) ? $texts : [$texts] as $text) {
                if ($name === 'content-type') {
                    $head['content_type'] = (string) $text;
                } elseif ($name !== 'content-length') {
                    $head['headers'][] = [$name, (string) $text];
                }
            }
        }
        return $value->body;
    }

    private static function isStatus(mixed $status): bool
    {
        return is_int($status) && $status >= 200 && $status < 600;
    }

    /** Returns the content of an Error. */
    public static function failure(\Throwable $error, bool $loading = false): string
    {
        $kind = 'error';
        foreach ($loading ? [] : self::KINDS as $class => $word) {
            $kind = $error instanceof $class ? $word : $kind;
        }
        $answer = ['kind' => $kind, 'message' => self::message($error)];
        if ($kind === 'execute-again') {
            try {
                $data = self::json($error->data, 'execute again: the data is not JSON');
                $answer = json_encode($answer, self::READABLE);
                return substr($answer, 0, -1) . ",\"data\":$data}";
            } catch (BadAnswer $why) {
                $answer = ['kind' => 'bad-answer', 'message' => $why->getMessage()];
            }
        }
        if ($kind === 'error') {
            $answer['stack'] = self::stack($error);
        }
        return json_encode($answer, self::READABLE);
    }

    private static function message(\Throwable $error): string
    {
        $text = $error->getMessage() === '' ? $error::class : $error->getMessage();
        if ($error instanceof \ParseError || $error instanceof \CompileError) {
            $text .= ' (' . basename($error->getFile()) . ":{$error->getLine()})";
        }
        return strlen($text) <= self::TEXT_MAX ? $text : substr($text, 0, self::TEXT_MAX) . '...';
    }

    /** Returns the error as php shows it, without the shim's frames. */
    private static function stack(\Throwable $error): string
    {
        $here = '/' . preg_quote(dirname(__DIR__), '/') . '\/(shim|lib\/\w+)\.php|\[internal function\]|^#\d+ \{main\}/';
        $lines = explode("\n", (string) $error);
        $text = implode("\n", preg_grep($here, $lines, PREG_GREP_INVERT)) . "\n";
        return strlen($text) <= self::STACK_MAX ? $text : substr($text, 0, self::STACK_MAX) . "...\n";
    }

    /** Returns the content of a Log. */
    public static function record(string $level, string|\Stringable $text, array $fields): string
    {
        $text = substr((string) $text, 0, self::TEXT_MAX);
        $answer = ['time_ms' => (int) (microtime(true) * 1000), 'level' => $level, 'message' => $text];
        if ($fields !== []) {
            $encoded = json_encode($fields, self::READABLE & ~JSON_THROW_ON_ERROR | JSON_PARTIAL_OUTPUT_ON_ERROR);
            if (strlen($encoded) <= self::TEXT_MAX) {
                $answer['fields'] = json_decode($encoded);
            }
        }
        return json_encode($answer, self::READABLE);
    }
}
