<?php
// Finds the handler and serves its calls, one after the other.

namespace FndWorker;

final class Worker
{
    private static Wire $wire;
    /** The functions that were there before the file was loaded. */
    private static array $before;
    private static string $handler;

    public static function begin(string $entry): void
    {
        self::$wire = new Wire();
        self::$before = get_defined_functions()['user'];
        // `require 'helper.php'` finds files beside the function's.
        set_include_path(dirname($entry) . PATH_SEPARATOR . get_include_path());
    }

    /** Finds the handler in the file, which was loaded. It may be in a namespace. */
    public static function find(): void
    {
        $defined = array_diff(get_defined_functions()['user'], self::$before);
        $named = fn (string $name) => array_values(array_filter(
            $defined,
            fn ($known) => substr(strrchr("\\$known", '\\'), 1) === strtolower($name),
        ))[0] ?? null;
        $wanted = (string) getenv('FUNC_HANDLER');
        $handler = $named($wanted === '' ? 'handler' : $wanted);
        if ($handler === null && $wanted !== '') {
            throw new \LogicException("the file has no function `$wanted`, which `handler` of the manifest names");
        }
        $main = $named('main');
        if ($handler === null && $main !== null && (new \ReflectionFunction($main))->getNumberOfParameters() === 2) {
            $handler = $main;
        }
        if ($handler === null) {
            throw new \LogicException('the file has no `handler($event, $context)` or `main($event, $context)`');
        }
        self::$handler = $handler;
    }

    /** Says why the worker cannot serve, and ends it. */
    public static function cannot(\Throwable $error): never
    {
        self::$wire->send(0, Wire::ERROR, Answer::failure($error, loading: true));
        exit(1);
    }

    public static function serve(): never
    {
        self::$wire->send(0, Wire::READY, '{"protocol":1,"concurrency":1}');
        while (($message = self::$wire->next()) !== null && $message[0] !== Wire::STOP) {
            [$type, $content] = self::answer($message[1], $message[2]);
            while (ob_get_level() > 0) {
                ob_end_flush();
            }
            flush();
            self::$wire->send($message[1], $type, $content);
        }
        exit(0);
    }

    private static function answer(int $call, string $content): array
    {
        try {
            $call = new Call(self::$wire, self::$handler, $call, $content);
            return [Wire::RESULT, Answer::result((self::$handler)($call->event(), $call->context()))];
        } catch (\Fnd\BadRequest $error) {
            return [Wire::RESULT, Answer::result(new \Fnd\Response($error->getMessage() . "\n", 400))];
        } catch (\Throwable $error) {
            return [Wire::ERROR, Answer::failure($error)];
        }
    }
}
