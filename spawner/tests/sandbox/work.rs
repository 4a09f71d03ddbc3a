//! Programs that have to work in every profile.

use crate::common::privileged;
use crate::{PROFILES, bash, can, expect, python, said, start};
use std::path::{Path, PathBuf};

#[test]
fn ordinary_commands_work() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    let script = r#"
echo substitution $(cat <(echo one) <(echo two) | wc -l)
echo here $(cat <<< text)
echo pipe $(seq 1000 | sort -n | tail -1)
echo background $(sleep 0.01 & wait $!; echo $?)
echo null $(echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c)
echo full $( (echo x > /dev/full) 2>&1 | grep -c 'No space')
echo stdout through > /dev/stdout
echo stderr through > /dev/stderr
echo temporary $(file=$(mktemp) && echo x > $file && cat $file && rm $file && echo gone)
echo directory $(dir=$(mktemp -d) && mkdir $dir/a && ln -s a $dir/b && ls $dir | wc -l)
echo home $(cd && echo x > x && cat x && pwd -P | grep -c /home/)
echo code $(wc -c < "$CODE"/*.sh | grep -c .) $(touch "$CODE"/x 2>&1 | grep -c touch)
echo user $(id -un | grep -c .) $(getent passwd $(id -u) | cut -d: -f3 | grep -cx $(id -u))
echo group $(getent group $(id -g) | grep -c :)
echo root $(id -un 0)
echo processes $(ps ax | grep -c bash) $(ps -p $$ -o user= | grep -c .)
echo machine $(grep -c MemTotal /proc/meminfo) $(nproc | grep -c .) $(cut -d' ' -f1 /proc/loadavg | grep -c .)
echo zone $(TZ=Europe/Berlin date -d @0 +%H)
echo locale $(LC_ALL=C.UTF-8 awk 'BEGIN { print length("ä") }' || true)
echo resolver $(cat /etc/resolv.conf >/dev/null && echo ok)
echo host $(getent hosts localhost | grep -c .)
echo terminal $(script -qec 'tty && echo inside' /dev/null </dev/null | grep -c -e /dev/pts -e inside)
echo result $(echo r > $FND_RESULT && cat $FND_RESULT)
echo signals $(bash -c 'trap "echo caught" USR1; kill -USR1 $$')
echo limits $(ulimit -n)
echo done
"#;
    for profile in PROFILES {
        let got = bash(&mut harness, profile, &format!("profile={profile}"), script);
        let expected = [
            ("substitution", "2"),
            ("here", "text"),
            ("pipe", "1000"),
            ("background", "0"),
            ("null", "4 8"),
            ("full", "1"),
            ("stdout", "through"),
            ("stderr", "through"),
            ("temporary", "x gone"),
            ("directory", "2"),
            ("home", "x 1"),
            ("code", "1 1"),
            ("root", "root"),
            ("machine", "1 1 1"),
            ("zone", "01"),
            ("resolver", "ok"),
            ("host", "1"),
            ("result", "r"),
            ("signals", "caught"),
            ("limits", "1024"),
            ("done", ""),
        ];
        expect(&got, profile, &expected);
        if profile != "off" && can(&harness, "mounts") {
            // The machine may have no name for the user; the sandbox has one.
            expect(&got, profile, &[("user", "1 1"), ("group", "1")]);
        }
        if Path::new("/usr/bin/script").exists() && Path::new("/dev/pts/ptmx").exists() && profile == "strict" {
            expect(&got, profile, &[("terminal", "2")]);
        }
    }
}

#[test]
fn python_works() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    let script = r"
import asyncio, hashlib, json, multiprocessing, pty, pwd, signal, sqlite3, ssl, subprocess, tempfile, threading, time
import concurrent.futures, zoneinfo, mmap, select, shutil
from multiprocessing import shared_memory
def threads():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return sum(pool.map(lambda x: x * x, range(100)))
def square(x):
    return x * x
def processes(how):
    with multiprocessing.get_context(how).Pool(2) as pool:
        return sum(pool.map(square, range(10)))
def locks():
    lock, queue = multiprocessing.Lock(), multiprocessing.Queue()
    child = multiprocessing.Process(target=lambda: queue.put('sent'))
    child.start()
    with lock:
        found = queue.get(timeout=20)
    child.join()
    return found
def shared():
    memory = shared_memory.SharedMemory(create=True, size=4096)
    memory.buf[0] = 7
    again = shared_memory.SharedMemory(memory.name)
    found = again.buf[0]
    again.close(); memory.close(); memory.unlink()
    return found
def database(place):
    base = sqlite3.connect(os.path.join(place, 'base.db'))
    mode = base.execute('pragma journal_mode=wal').fetchone()[0]
    base.execute('create table t (x)')
    base.executemany('insert into t values (?)', [(n,) for n in range(100)])
    base.commit()
    found = base.execute('select sum(x) from t').fetchone()[0]
    base.close()
    return f'{mode}-{found}'
async def served():
    async def answer(reader, writer):
        writer.write(await reader.readline()); await writer.drain(); writer.close()
    server = await asyncio.start_server(answer, '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b'line\n')
    found = (await reader.readline()).decode().strip()
    writer.close(); server.close()
    child = await asyncio.create_subprocess_exec('echo', 'child', stdout=subprocess.PIPE)
    return found + '-' + (await child.communicate())[0].decode().strip()
def terminal():
    child, master = pty.fork()
    if child == 0:
        os.execv('/bin/sh', ['sh', '-c', 'test -t 0 && echo terminal'])
    text = b''
    try:
        while True:
            more = os.read(master, 100)
            if not more: break
            text += more
    except OSError:
        pass
    os.waitpid(child, 0)
    return text.decode().strip()
def timed():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    return 'fired'
def local():
    path = os.path.join(tempfile.mkdtemp(), 's')
    server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
    client = socket.socket(socket.AF_UNIX); client.connect(path)
    socket.send_fds(server.accept()[0], [b'x'], [0])
    return len(socket.recv_fds(client, 1, 1)[1])
if __name__ == '__main__':
    before = os.nice(0)
    say('threads', threads)
    say('fork', lambda: processes('fork'))
    say('spawn', lambda: processes('spawn'))
    say('locks', locks)
    say('shared', shared)
    say('database', lambda: database(os.environ['HOME']))
    with tempfile.TemporaryDirectory(dir='/tmp') as place:
        say('database-tmp', lambda: database(place))
    say('asyncio', lambda: asyncio.run(served()))
    say('ssl', lambda: len(ssl.create_default_context().get_ciphers()) > 5)
    say('subprocess', lambda: subprocess.run('echo $0', shell=True, capture_output=True, text=True).stdout.strip())
    say('terminal', terminal)
    say('timed', timed)
    say('local', local)
    say('name', lambda: os.environ['HOME'] in [user.pw_dir for user in pwd.getpwall() if user.pw_uid == os.getuid()])
    say('zone', lambda: zoneinfo.ZoneInfo('Europe/Berlin').key)
    say('resolve', lambda: socket.getaddrinfo('localhost', 80)[0][4][0] in ('127.0.0.1', '::1'))
    say('map', lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close())
    say('watch', lambda: select.epoll().close())
    say('affinity', lambda: len(os.sched_getaffinity(0)) > 0)
    say('disk', lambda: shutil.disk_usage(os.environ['HOME']).total > 0)
    say('xattr', lambda: os.listxattr(os.environ['HOME']) is not None)
    say('nice', lambda: os.nice(1) == before + 1)
    say('priority', lambda: os.setpriority(os.PRIO_PROCESS, 0, min(before + 2, 19)))
";
    for profile in PROFILES {
        let lines = format!("profile={profile}\nmemory=536870912");
        let got = python(&mut harness, profile, &lines, script);
        let expected = [
            ("threads", "328350"),
            ("fork", "285"),
            ("spawn", "285"),
            ("locks", "sent"),
            ("shared", "7"),
            ("database", "wal-4950"),
            ("database-tmp", "wal-4950"),
            ("asyncio", "line-child"),
            ("ssl", "True"),
            ("subprocess", "/bin/sh"),
            ("timed", "fired"),
            ("local", "1"),
            ("zone", "Europe/Berlin"),
            ("resolve", "True"),
            ("map", "ok"),
            ("watch", "ok"),
            ("affinity", "True"),
            ("disk", "True"),
            ("xattr", "True"),
            ("nice", "True"),
            ("priority", "ok"),
        ];
        expect(&got, profile, &expected);
        if profile != "off" && can(&harness, "mounts") {
            expect(&got, profile, &[("name", "True")]);
        }
        if profile == "strict" && can(&harness, "mounts") {
            expect(&got, profile, &[("terminal", "terminal")]);
        }
    }
}

#[test]
fn node_works() {
    let node = Path::new("/usr/bin/node");
    if !privileged() || !node.exists() {
        return;
    }
    let mut harness = start();
    let script = r"
const { Worker } = require('node:worker_threads');
const { execSync, spawn } = require('node:child_process');
const http = require('node:http'), fs = require('node:fs'), os = require('node:os'), crypto = require('node:crypto');
console.log('exec', execSync('echo $((6 * 7))').toString().trim());
console.log('cpus', os.cpus().length > 0, 'memory', os.totalmem() > 0);
if (process.env.DATA) console.log('user', os.userInfo().uid === process.getuid());
console.log('hash', crypto.createHash('sha256').update('x').digest('hex').slice(0, 4));
fs.writeFileSync(process.env.HOME + '/node', 'x');
const worker = new Worker(`require('node:worker_threads').parentPort.postMessage(6 * 7)`, { eval: true });
worker.on('message', (found) => console.log('worker', found));
let sum = 0;
for (let i = 0; i < 1e6; i++) sum += i % 7; // long enough to be compiled
console.log('compiled', sum > 0);
spawn('cat', ['/etc/hostname']).on('close', (code) => console.log('spawn', code));
const server = http.createServer((_, response) => response.end('answered')).listen(0, '127.0.0.1', async () => {
  const response = await fetch(`http://127.0.0.1:${server.address().port}/`);
  console.log('http', await response.text());
  fs.promises.readFile(process.env.HOME + '/node', 'utf8').then((text) => { console.log('file', text); server.close(); });
});
";
    for profile in PROFILES {
        let lines = format!("interpreters={}\nprofile={profile}\nmemory=1073741824", node.display());
        let installed = harness.install(&format!("{profile}.js"), script, &lines);
        // Without a sandbox the harness gives the user no name.
        let named = profile != "off" && can(&harness, "mounts");
        let given = [("DATA", "named")];
        let run = harness.run(&installed, None, if named { &given } else { &[] });
        let got = run.stdout + &run.stderr;
        let expected = [
            ("exec", "42"),
            ("cpus", "true memory true"),
            ("worker", "42"),
            ("compiled", "true"),
            ("http", "answered"),
            ("file", "x"),
            ("hash", "2d71"),
        ];
        expect(&got, profile, &expected);
        if named {
            expect(&got, profile, &[("user", "true")]);
        }
        assert!(said(&got, "spawn") == "0" || !Path::new("/etc/hostname").exists(), "{profile}: {got}");
    }
}

#[test]
fn deno_works() {
    let Some(deno) = std::env::var_os("FND_DENO").map(PathBuf::from).filter(|deno| deno.exists()) else { return };
    if !privileged() {
        return;
    }
    let mut harness = start();
    let script = r#"
import * as fs from "node:fs";
console.log("written", (Deno.writeTextFileSync(Deno.env.get("HOME") + "/d", "x"), Deno.readTextFileSync(Deno.env.get("HOME") + "/d")));
console.log("command", new TextDecoder().decode(new Deno.Command("echo", { args: ["out"] }).outputSync().stdout).trim());
const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => new Response("answered"));
console.log("http", await (await fetch(`http://127.0.0.1:${server.addr.port}/`)).text());
await server.shutdown();
const url = URL.createObjectURL(new Blob(["self.postMessage(42)"], { type: "text/javascript" }));
const worker = new Worker(url, { type: "module" });
console.log("worker", await new Promise((found) => { worker.onmessage = (event) => found(event.data); }));
worker.terminate();
console.log("node", fs.existsSync("/usr"));
"#;
    let deno = deno.canonicalize().unwrap();
    for profile in PROFILES {
        let start = "exec \"$DENO\" run -A --no-lock \"$CODE/main.ts\"\n";
        harness.write(&format!("{profile}/main.ts"), script);
        harness.write(&format!("{profile}/start.sh"), &start.replace("$DENO", &deno.display().to_string()));
        let seen = deno.display(); // a checkout may lie in a hidden place
        let lines = format!("entry=start.sh\nprofile={profile}\nmemory=1073741824\npids=200\nread_only={seen}");
        harness.write(&format!("{profile}/function.toml"), &lines);
        let crate::common::Outcome::Installed(installed) = harness.try_install(profile, None) else {
            panic!("refused")
        };
        let run = harness.run(&installed, None, &[]);
        let got = run.stdout + &run.stderr;
        let expected = [("written", "x"), ("command", "out"), ("http", "answered"), ("worker", "42"), ("node", "true")];
        expect(&got, profile, &expected);
    }
}
