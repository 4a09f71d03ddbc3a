<?php
// Reads the forms of a request: `application/x-www-form-urlencoded` and `multipart/form-data` (RFC 7578).
//
// The body is in memory already, and `limits.body` bounds it. A file goes to `TMPDIR` only when its path is asked for. The
// reader is strict: whatever a browser or curl would not send is a `Fnd\BadRequest`.

namespace FndWorker;

use Fnd\BadRequest;

/** The readers. Both return the fields and the files of a body. */
final class Form
{
    private const PARTS_MAX = 1000;
    private const HEAD_MAX = 8 << 10;
    private const FIELDS_MAX = 10000;
    private const BOUNDARY = "~^[0-9A-Za-z'()+_,./:=?\\- ]{0,69}[0-9A-Za-z'()+_,./:=?\\-]\$~D";
    // Spaces are spelled out: what `\s` and `trim` take for space differs between languages, and so would the answers.
    private const HEADER = "/^([!#\$%&'*+\\-.^_`|~0-9A-Za-z]+):([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)\$/D";
    // One parameter of a header: a token, or a quoted string in which only the quote may be escaped.
    private const PARAMETER = "/\\G;[ \\t]*([!#\$%&'*+\\-.^_`|~0-9A-Za-z]+)=(?:\"((?:[^\"\\\\]|\\\\[\\s\\S])*+)\"|([^ \\t\";]*))[ \\t]*/";
    private const SPACE = " \t";

    /** @return Values[] */
    public static function urlencoded(string $body): array
    {
        if (substr_count($body, '&') >= self::FIELDS_MAX) {
            throw new BadRequest('the form has more than ' . self::FIELDS_MAX . ' fields');
        }
        $pairs = [];
        foreach (explode('&', $body) as $pair) {
            if ($pair !== '') {
                [$name, $value] = explode('=', $pair, 2) + [1 => ''];
                $pairs[] = [self::scrubbed(urldecode($name)), self::scrubbed(urldecode($value))];
            }
        }
        return [new Values($pairs), new Values()];
    }

    /** Returns a text without bytes that are not UTF-8: they become replacement characters. */
    private static function scrubbed(string $text): string
    {
        if (preg_match('//u', $text) === 1) {
            return $text;
        }
        return json_decode(json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE));
    }

    /** @return Values[] */
    public static function multipart(string $body, string $contentType): array
    {
        $mark = "\r\n--" . self::boundary($contentType);
        // The line break before the first boundary is optional.
        $first = str_starts_with($body, $mark) ? strlen($mark) : strlen($mark) - 2;
        if ($first !== strlen($mark) && !str_starts_with($body, substr($mark, 2))) {
            throw new BadRequest('the multipart body does not begin with its boundary');
        }
        [$at, $isLast] = self::lineEnd($body, $first);
        if ($at === null) {
            throw new BadRequest('the first boundary of the multipart body is not a line of its own');
        }
        [$fields, $files] = [[], []];
        while (!$isLast) {
            $number = count($fields) + count($files) + 1;
            if ($number > self::PARTS_MAX) {
                throw new BadRequest('the multipart body has more than ' . self::PARTS_MAX . ' parts');
            }
            $length = strpos(substr($body, $at, self::HEAD_MAX), "\r\n\r\n");
            if ($length === false) {
                throw new BadRequest("the headers of part $number do not end within 8 KiB");
            }
            [$name, $filename, $kind] = self::headers(substr($body, $at, $length));
            $from = $at + $length + 4;
            [$end, $at, $isLast] = self::contentEnd($body, $from - 2, $mark);
            // An empty part ends at the line break of its headers.
            $data = substr($body, $from, max($end - $from, 0));
            if ($filename === null) {
                $fields[] = [$name, self::text($data, $name, $kind)];
            } else {
                $files[] = [$name, new Upload($name, $filename, $kind === '' ? 'application/octet-stream' : $kind, $data)];
            }
        }
        return [new Values($fields), new Values($files)];
    }

    /** Returns where a content ends, where the next part begins, and whether there is none. */
    private static function contentEnd(string $body, int $at, string $mark): array
    {
        while (true) {
            $found = strpos($body, $mark, $at);
            if ($found === false) {
                throw new BadRequest('the multipart body ends before its last boundary');
            }
            [$after, $isLast] = self::lineEnd($body, $found + strlen($mark));
            if ($after !== null) {
                return [$found, $after, $isLast];
            }
            // The content has the boundary as the beginning of a longer line.
            $at = $found + 2;
        }
    }

    /** Returns the end of a boundary's line and whether it is the last one; null where it is none. */
    private static function lineEnd(string $body, int $at): array
    {
        if (substr($body, $at, 2) === '--') {
            return [$at, true];
        }
        $at += strspn($body, self::SPACE, $at);
        return substr($body, $at, 2) === "\r\n" ? [$at + 2, false] : [null, false];
    }

    private static function boundary(string $contentType): string
    {
        $value = self::parameters($contentType)['boundary'] ?? '';
        if (preg_match(self::BOUNDARY, $value) !== 1) {
            throw new BadRequest('the content type `multipart/form-data` has no valid `boundary`');
        }
        return $value;
    }

    /** Returns name, file name and content type of a part. */
    private static function headers(string $block): array
    {
        if (preg_match('//u', $block) !== 1) {
            throw new BadRequest('the headers of a part are not UTF-8');
        }
        $known = [];
        foreach (explode("\r\n", $block) as $line) {
            if (preg_match(self::HEADER, $line, $match) !== 1) {
                throw new BadRequest('a part has an invalid header line');
            }
            $key = strtolower($match[1]);
            if (isset($known[$key])) {
                throw new BadRequest("a part has the header `$key` twice");
            }
            $known[$key] = trim($match[2], self::SPACE);
        }
        $disposition = $known['content-disposition'] ?? '';
        if (strtolower(trim(explode(';', $disposition, 2)[0], self::SPACE)) !== 'form-data') {
            throw new BadRequest('a part has no header `Content-Disposition: form-data`');
        }
        $found = self::parameters($disposition);
        if (!isset($found['name'])) {
            throw new BadRequest('a part of the form has no name');
        }
        $kind = $known['content-type'] ?? '';
        if (str_starts_with(strtolower($kind), 'multipart/')) {
            throw new BadRequest('a part of the form is a multipart body itself');
        }
        return [$found['name'], $found['filename'] ?? null, $kind];
    }

    /** Returns the parameters of a header. */
    private static function parameters(string $header): array
    {
        $found = [];
        $at = strpos($header, ';');
        while ($at !== false && $at < strlen($header)) {
            if (preg_match(self::PARAMETER, $header, $match, PREG_UNMATCHED_AS_NULL, $at) !== 1) {
                throw new BadRequest('a header has invalid parameters');
            }
            $name = strtolower($match[1]);
            if (isset($found[$name])) {
                throw new BadRequest("a header has the parameter `$match[1]` twice");
            }
            // Browsers send a quote as `%22`; others escape it. Any other backslash is a part of the value.
            $found[$name] = $match[2] === null ? $match[3] : str_replace('%22', '"', str_replace('\\"', '"', $match[2]));
            $at += strlen($match[0]);
        }
        return $found;
    }

    private static function text(string $data, string $name, string $kind): string
    {
        $charset = strtolower($kind === '' ? 'utf-8' : self::parameters($kind)['charset'] ?? 'utf-8');
        $shown = 'the field `' . Upload::characters('/^.{0,64}/us', $name) . '`';
        $isFine = match ($charset) {
            'utf-8', 'utf8' => preg_match('//u', $data) === 1,
            'us-ascii' => preg_match('/[\x80-\xff]/', $data) === 0,
            'iso-8859-1' => true,
            default => throw new BadRequest(
                "$shown has the character set `" . Upload::characters('/^.{0,64}/us', $charset) . '`, which is not supported'
            ),
        };
        if (!$isFine) {
            throw new BadRequest("$shown is not $charset");
        }
        $latin = fn (array $byte) => chr(0xc0 | ord($byte[0]) >> 6) . chr(0x80 | ord($byte[0]) & 0x3f);
        return $charset === 'iso-8859-1' ? preg_replace_callback('/[\x80-\xff]/', $latin, $data) : $data;
    }
}
