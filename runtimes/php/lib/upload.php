<?php
// What a form consists of: values by name, which are texts or files.

namespace FndWorker;

/** Values by name: `$values['title']` is the last of that name or null, `getAll('tag')` has all of them. */
final class Values implements \ArrayAccess, \Countable, \IteratorAggregate, \JsonSerializable
{
    private array $all = [];

    /** Keys of arrays that are digits become numbers, so a pair keeps its name. */
    public function __construct(array $pairs = [])
    {
        foreach ($pairs as [$name, $value]) {
            $this->all[$name][] = $value;
        }
    }

    public function getAll(string $name): array
    {
        return $this->all[$name] ?? [];
    }

    public function offsetGet(mixed $name): mixed
    {
        return array_slice($this->getAll((string) $name), -1)[0] ?? null;
    }

    public function offsetSet(mixed $name, mixed $value): void
    {
        throw new \LogicException('the values of a form cannot be changed');
    }

    public function offsetExists(mixed $name): bool
    {
        return isset($this->all[$name]);
    }

    public function offsetUnset(mixed $name): void
    {
        $this->offsetSet($name, null);
    }

    public function count(): int
    {
        return count($this->all);
    }

    /** Yields names with the last value of each. */
    public function getIterator(): \Generator
    {
        foreach ($this->all as $name => $values) {
            yield (string) $name => end($values);
        }
    }

    /** Returns the last value of each name; names that are digits are numbers there, as in `$_POST`. */
    public function toArray(): array
    {
        return iterator_to_array($this);
    }

    public function jsonSerialize(): mixed
    {
        return (object) $this->toArray();
    }
}

/** A file. Also has the names of PSR-7: `getClientFilename`, `getClientMediaType`, `getSize`, `moveTo`. */
final class Upload
{
    public readonly string $filename;
    public readonly int $size;
    private ?string $path = null;
    /** Files that were written so far: `TMPDIR` belongs to this worker, so a number makes a name of its own. */
    private static int $written = 0;

    public function __construct(
        public readonly string $name,
        public readonly string $rawFilename,
        public readonly string $contentType,
        private string $data,
    ) {
        $this->filename = self::baseName($rawFilename);
        $this->size = strlen($data);
    }

    /** Returns the last component of a file name, which a handler may use in a directory of its own. */
    private static function baseName(string $raw): string
    {
        $parts = preg_split('~[/\\\\]~', $raw);
        $name = trim(end($parts), " \t");
        return in_array($name, ['', '.', '..'], true) ? 'empty' : self::characters('/.{1,255}$/Dus', $name);
    }

    /** Returns what a pattern finds in a text. */
    public static function characters(string $pattern, string $text): string
    {
        return preg_match($pattern, $text, $match) === 1 ? $match[0] : '';
    }

    /** Returns the content. */
    public function read(): string
    {
        return $this->data;
    }

    /** Returns a file in `TMPDIR` with the content. It is removed when the call ends, unless the handler has moved it. */
    public function path(): string
    {
        if ($this->path === null) {
            $path = (getenv('TMPDIR') ?: '/tmp') . '/upload-' . getmypid() . '-' . ++self::$written;
            $this->write($path);
            $this->path = $path;
        }
        return $this->path;
    }

    /** Writes the content to a file that does not exist yet, or into a directory under `filename`. */
    public function save(string $destination): void
    {
        $this->write(is_dir($destination) ? "$destination/$this->filename" : $destination);
    }

    private function write(string $path): void
    {
        $file = @fopen($path, 'xb');
        if ($file === false || fwrite($file, $this->data) !== $this->size || !fclose($file)) {
            $why = error_get_last()['message'] ?? 'it was not written completely';
            throw new \RuntimeException("cannot write the file `$path`: $why");
        }
    }

    public function getClientFilename(): string
    {
        return $this->filename;
    }

    public function getClientMediaType(): string
    {
        return $this->contentType;
    }

    public function getSize(): int
    {
        return $this->size;
    }

    public function moveTo(string $destination): void
    {
        $this->save($destination);
    }

    public function __destruct()
    {
        if ($this->path !== null && file_exists($this->path)) {
            unlink($this->path);
        }
    }
}
