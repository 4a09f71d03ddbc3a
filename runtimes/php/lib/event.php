<?php
// Makes the arguments of a handler: the event and the context of Kubeless.

namespace FndWorker;

/** An object with names such as `event-type`: `$event->data`, `$event->{'event-type'}`, `$event->event_type`, `$event['data']`. */
class Names implements \ArrayAccess, \JsonSerializable
{
    public function __construct(private array $values)
    {
    }

    private function name(string $name): string
    {
        return array_key_exists($name, $this->values) ? $name : strtr($name, '_', '-');
    }

    public function __get(string $name): mixed
    {
        return $this->values[$this->name($name)] ?? null;
    }

    public function __set(string $name, mixed $value): void
    {
        $this->values[$this->name($name)] = $value;
    }

    public function __isset(string $name): bool
    {
        return isset($this->values[$this->name($name)]);
    }

    public function __unset(string $name): void
    {
        unset($this->values[$this->name($name)]);
    }

    public function offsetGet(mixed $name): mixed
    {
        return $this->__get($name);
    }

    public function offsetSet(mixed $name, mixed $value): void
    {
        $this->__set((string) $name, $value);
    }

    public function offsetExists(mixed $name): bool
    {
        return $this->__isset($name);
    }

    public function offsetUnset(mixed $name): void
    {
        $this->__unset($name);
    }

    public function jsonSerialize(): mixed
    {
        return $this->values;
    }
}

/** Log records of one call: `$context->log->info('order', ['id' => 7])`. */
final class Logger
{
    public function __construct(private Wire $wire, private int $call)
    {
    }

    public function debug(string|\Stringable $text, array $fields = []): void
    {
        $this->wire->send($this->call, Wire::LOG, Answer::record('debug', $text, $fields));
    }

    public function info(string|\Stringable $text, array $fields = []): void
    {
        $this->wire->send($this->call, Wire::LOG, Answer::record('info', $text, $fields));
    }

    public function warning(string|\Stringable $text, array $fields = []): void
    {
        $this->wire->send($this->call, Wire::LOG, Answer::record('warning', $text, $fields));
    }

    public function error(string|\Stringable $text, array $fields = []): void
    {
        $this->wire->send($this->call, Wire::LOG, Answer::record('error', $text, $fields));
    }
}

/** One call: the parts of its Invoke, and what the handler gets. */
final class Call
{
    private const NAMES = [
        'event-id' => 'ce-id', 'event-type' => 'ce-type', 'event-time' => 'ce-time', 'event-namespace' => 'ce-source',
    ];
    private array $head;
    private ?string $payload = null;
    private ?string $previous = null;

    public function __construct(private Wire $wire, private string $handler, private int $call, string $content)
    {
        $at = 4 + unpack('V', $content)[1];
        $this->head = Payload::value(substr($content, 4, $at - 4), true);
        if (isset($this->head['data'])) {
            $this->payload = substr($content, $at, $this->head['data']);
            $at += $this->head['data'];
        }
        if (isset($this->head['previous'])) {
            $this->previous = substr($content, $at, $this->head['previous']);
        }
    }

    public function event(): Names
    {
        $request = new Request($this->head, $this->payload);
        $headers = $request->headers;
        $attributes = [];
        if (Payload::mediaType($request->contentType) === 'application/cloudevents+json') {
            [$data, $attributes] = Payload::structured($this->payload ?? '');
        } else {
            $data = Payload::decode($this->payload, $request->contentType);
            if (isset($headers['ce-type'], $headers['ce-source'])) {
                $attributes = array_filter($headers, fn ($name) => str_starts_with($name, 'ce-'), ARRAY_FILTER_USE_KEY);
            }
        }
        $cause = $this->head['cause'] ?? [];
        $values = ['data' => $data, 'extensions' => new Names(['request' => $request] + $cause)];
        // Without an event of its own, the invocation is one.
        $own = [
            'event-id' => $this->head['invocation'], 'event-type' => $request->contentType ?: 'application/json',
            'event-time' => $this->head['time'] ?? null, 'event-namespace' => 'fnd/' . $this->head['trigger'],
        ];
        foreach (self::NAMES as $name => $attribute) {
            $values[$name] = $headers[$name] ?? $attributes[$attribute] ?? $own[$name];
        }
        return new Names($values + $attributes);
    }

    public function context(): Names
    {
        $values = [
            'function-name' => $this->handler,
            'timeout' => (float) (getenv('FUNC_TIMEOUT') ?: 180),
            'runtime' => getenv('FUNC_RUNTIME') ?: null,
            'memory-limit' => getenv('FUNC_MEMORY_LIMIT') ?: null,
            'deadline' => $this->head['deadline_ms'] ?? null,
            'keptn-context' => $this->head['context'] ?? null,
            'previous' => $this->previous === null ? null : Payload::value($this->previous),
            'log' => new Logger($this->wire, $this->call),
        ];
        foreach (['invocation', 'attempt', 'poll', 'trigger', 'traceparent'] as $name) {
            $values[$name] = $this->head[$name];
        }
        return new Names($values);
    }
}
