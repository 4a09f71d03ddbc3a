<?php
// The payload by its content type, and the HTTP request that brought it.

namespace FndWorker;

final class Payload
{
    /** Levels of nesting in JSON. */
    public const DEPTH_MAX = 1000;

    public static function mediaType(?string $contentType): ?string
    {
        return $contentType === null ? null : strtolower(trim(explode(';', $contentType, 2)[0]));
    }

    /** Returns a payload by its content type: JSON as a value, else a string. Without content type: JSON if it parses. */
    public static function decode(?string $payload, ?string $contentType): mixed
    {
        $kind = self::mediaType($contentType);
        if ($payload === null || ($kind !== null && $kind !== 'application/json')) {
            return $payload;
        }
        if ($kind !== null) {
            return self::parse($payload);
        }
        try {
            return self::value($payload);
        } catch (\JsonException) {
            return $payload;
        }
    }

    public static function parse(string $payload): mixed
    {
        $payload = str_starts_with($payload, "\u{feff}") ? substr($payload, 3) : $payload;
        try {
            return $payload === '' ? null : self::value($payload);
        } catch (\JsonException $error) {
            $why = $error->getMessage();
            throw new \UnexpectedValueException("the content type says JSON, but the payload is not: $why");
        }
    }

    public static function value(string $bytes, bool $asArrays = false): mixed
    {
        return json_decode($bytes, $asArrays, self::DEPTH_MAX, JSON_THROW_ON_ERROR);
    }

    /** Splits a CloudEvent into its data, and its attributes as `ce-NAME`. */
    public static function structured(string $payload): array
    {
        $event = self::parse($payload);
        if (!$event instanceof \stdClass) {
            $message = 'the content type says CloudEvent, but the payload is not a JSON object';
            throw new \UnexpectedValueException($message);
        }
        $data = $event->data ?? null;
        if (isset($event->data_base64)) {
            $type = $event->datacontenttype ?? 'application/octet-stream';
            $data = self::decode(base64_decode($event->data_base64), $type);
        }
        unset($event->data, $event->data_base64);
        $attributes = [];
        foreach ($event as $name => $value) {
            $attributes["ce-$name"] = $value;
        }
        return [$data, $attributes];
    }
}

/** The HTTP request of an invocation. An invocation without one gets a request that would have started it. */
final class Request
{
    public string $method;
    public string $path;
    /** The text behind the `?`. */
    public string $queryString;
    /** The parameters of it by name; the last value of each. */
    public array $query = [];
    /** Headers by their names in lower case. */
    public array $headers = [];
    /** The parameters of the route by name. */
    public array $params = [];
    public string $body;
    public ?string $contentType;
    /** What a route adds; null without one. */
    public ?string $route;
    public ?string $remoteAddr;
    public ?string $scheme;
    public ?string $host;
    public ?string $protocol;
    /** The fields and the files of a form, once they are read. */
    private ?array $form = null;

    public function __construct(array $head, ?string $payload)
    {
        $made = $head['request'] ?? [];
        $this->method = $made['method'] ?? ($payload === null ? 'GET' : 'POST');
        $this->path = $made['path'] ?? '/';
        $this->queryString = $made['query'] ?? '';
        foreach ($made['headers'] ?? [] as [$name, $value]) {
            $this->headers[$name] = isset($this->headers[$name]) ? "{$this->headers[$name]}, $value" : $value;
        }
        $this->contentType = $head['content_type'] ?? $this->headers['content-type'] ?? null;
        if ($this->contentType !== null) {
            $this->headers['content-type'] ??= $this->contentType;
        }
        foreach (array_filter(explode('&', $this->queryString), strlen(...)) as $pair) {
            [$name, $value] = explode('=', $pair, 2) + [1 => ''];
            $this->query[urldecode($name)] = urldecode($value);
        }
        foreach ($made['params'] ?? [] as [$name, $value]) {
            $this->params[$name] = $value;
        }
        $this->body = $payload ?? '';
        $this->route = $made['route'] ?? null;
        $this->remoteAddr = $made['remote'] ?? null;
        $this->scheme = $made['scheme'] ?? null;
        $this->host = $made['host'] ?? null;
        $this->protocol = $made['protocol'] ?? null;
    }

    public function url(): string
    {
        return $this->queryString === '' ? $this->path : "$this->path?$this->queryString";
    }

    public function header(string $name, ?string $default = null): ?string
    {
        return $this->headers[strtolower($name)] ?? $default;
    }

    public function json(): mixed
    {
        return Payload::mediaType($this->contentType) === 'application/json' ? Payload::parse($this->body) : null;
    }

    /** Returns the fields of a form, urlencoded or multipart; none for a body of another type. */
    public function forms(): Values
    {
        return $this->form()[0];
    }

    /** Returns the files of a multipart form. */
    public function files(): Values
    {
        return $this->form()[1];
    }

    private function form(): array
    {
        return $this->form ??= match (Payload::mediaType($this->contentType)) {
            'multipart/form-data' => Form::multipart($this->body, $this->contentType),
            'application/x-www-form-urlencoded' => Form::urlencoded($this->body),
            default => [new Values(), new Values()],
        };
    }

    // The names of PSR-7, which Kubeless's requests have.

    public function getMethod(): string
    {
        return $this->method;
    }

    public function getQueryParams(): array
    {
        return $this->query;
    }

    public function getHeaderLine(string $name): string
    {
        return $this->header($name, '');
    }

    public function getBody(): string
    {
        return $this->body;
    }

    /** Returns the last field of each name for a form, else JSON. */
    public function getParsedBody(): mixed
    {
        $isForm = preg_match('~^(multipart/form-data|application/x-www-form-urlencoded)$~D', Payload::mediaType($this->contentType) ?? '');
        return $isForm === 1 ? $this->forms()->toArray() : $this->json();
    }

    public function getUploadedFiles(): array
    {
        return $this->files()->toArray();
    }
}
