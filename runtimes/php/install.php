<?php
// Installs the packages of functions: `php install.php fnd-build.json` (docs/dependencies.md).
//
// fnd runs it as the function `fnd-build`, in a directory with the files that list the packages. It leaves a tree in
// `$STATE_DIRECTORY/NAME` and tells by the file `.fnd-packages` that the tree is complete; NAME is that of the directory
// above. Exit 75: the network is the reason, and another attempt may succeed. Exit 65: it is not.

declare(strict_types=1);

const TRANSIENT = 75;
const FAILED = 65;
// Messages of composer about the network or the index.
const NETWORK = '~curl error (6|7|16|18|28|35|52|55|56)\b|Could not resolve host|Connection (refused|timed out|reset)'
    . '|Failed to open stream|HTTP/\S+ 5\d\d|HTTP 5\d\d~i';
const COMPOSER = ['/usr/bin/composer', '/usr/local/bin/composer'];
// How a function finds the packages: COMPOSER_TREE is in its environment.
const INI = <<<'TEXT'
    include_path = ".:${COMPOSER_TREE}:/usr/share/php"
    auto_prepend_file = "${COMPOSER_TREE}/vendor/autoload.php"

    TEXT;

function fail(string $why, int $status = FAILED): never
{
    // What a failed installation has left may fill the disk.
    exec('/bin/rm -rf ' . escapeshellarg(getenv('STATE_DIRECTORY')) . '/*');
    fwrite(STDERR, "$why\n");
    exit($status);
}

/** Runs composer; shows its output, and ends with the reason if it fails. */
function composer(string $tree, array $env, string ...$options): void
{
    $program = current(array_filter(COMPOSER, is_file(...))) ?: fail('there is no composer: `apt install composer unzip`');
    echo '+ composer ', implode(' ', $options), "\n";
    $pipes = [];
    $started = proc_open([PHP_BINARY, $program, ...$options], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, $tree, $env);
    [$network, $problem, $last] = [false, null, ''];
    while (($line = fgets($pipes[1])) !== false) {
        echo $line;
        $network = $network || preg_match(NETWORK, $line) === 1;
        $text = trim($line);
        if (preg_match('~^(Problem \d|- |Your lock|Could not|The )~', $text) === 1) {
            $problem ??= $text;
        }
        $last = $text !== '' ? $text : $last;
    }
    fclose($pipes[1]);
    if (proc_close($started) !== 0) {
        fail($problem ?? $last, $network ? TRANSIENT : FAILED);
    }
}

$request = realpath($argv[1]);
$code = dirname($request);
$wanted = json_decode(file_get_contents($request), true, flags: JSON_THROW_ON_ERROR);
$state = getenv('STATE_DIRECTORY');
$tree = "$state/" . basename(dirname($code));
foreach ([$tree, "$tree/php", "$state/home", "$state/tmp"] as $directory) {
    is_dir($directory) || mkdir($directory);
}
$env = getenv() + [
    'COMPOSER_CACHE_DIR' => getenv('CACHE_DIRECTORY') . '/composer',
    'COMPOSER_NO_AUDIT' => '1',
    'KUBELESS_INSTALL_VOLUME' => $tree,
    'KUBELESS_DEPS_FILE' => "$tree/composer.json",
    'KUBELESS_FUNC_NAME' => (string) getenv('FND_FUNCTION'),
];
$env = ['HOME' => "$state/home", 'TMPDIR' => "$state/tmp", 'COMPOSER_HOME' => "$state/home/composer"] + $env;
if (getenv('FND_OFFLINE') !== false) {
    $env['COMPOSER_DISABLE_NETWORK'] = '1';
}
// A secret of `[build] secrets`: passwords of indexes.
$auth = getenv('CREDENTIALS_DIRECTORY') . '/auth.json';
if (is_file($auth)) {
    $env['COMPOSER_AUTH'] = file_get_contents($auth);
}

if ($wanted['file'] !== null) {
    $from = dirname("$code/{$wanted['file']}");
    foreach (['composer.json', 'composer.lock', 'auth.json'] as $name) {
        !is_file("$from/$name") || copy("$from/$name", "$tree/$name");
    }
} else {
    $packages = [];
    foreach ($wanted['list'] as $item) {
        // `VENDOR/NAME`, `VENDOR/NAME:^3` or `VENDOR/NAME ^3`.
        [$name, $version] = preg_split('~\s*[:=\s]\s*~', trim($item), 2) + [1 => '*'];
        $packages[$name] = $version;
    }
    $list = ['require' => $packages];
    if ($index = getenv('COMPOSER_REPOSITORY')) {
        $list['repositories'] = [['type' => 'composer', 'url' => $index], ['packagist.org' => false]];
        $list['config'] = ['secure-http' => !str_starts_with($index, 'http:')];
    }
    file_put_contents("$tree/composer.json", json_encode($list, JSON_UNESCAPED_SLASHES));
}
composer($tree, $env, 'install', '--no-dev', '--no-interaction', '--no-progress', '--prefer-dist', '--optimize-autoloader');
// It may have a password, and every function with these packages can read the tree.
@unlink("$tree/auth.json");
file_put_contents("$tree/php/fnd.ini", INI);
$installed = json_decode(file_get_contents("$tree/vendor/composer/installed.json"), true);
$lines = array_map(fn (array $package) => "{$package['name']} {$package['version']}\n", $installed['packages']);
sort($lines);
file_put_contents("$tree/.fnd-packages", implode('', $lines));
echo 'installed ', count($lines), count($lines) === 1 ? " package\n" : " packages\n";
