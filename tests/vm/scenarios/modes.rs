//! Programs that serve HTTP and services, under the units' restrictions, over a restart of fnd.

use crate::guest::PATIENCE;
use crate::machine::VirtualMachine;

/// Answers with its process id, at a port or on a socket.
const SERVER: &str = r#"import http.server, os, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    def address_string(self): return "fnd"
    def do_GET(self):
        body = b"%d\n" % os.getpid()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
path = os.environ.get("FND_SOCKET_PATH")
server = socketserver.UnixStreamServer(path, Handler) if path else http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
server.serve_forever()
"#;

/// Calls a program through the control socket; the answer is its process id.
fn pid(machine: &VirtualMachine, name: &str) -> String {
    let url = format!("http://fnd/v1/functions/{name}/http/");
    machine.ok(&format!(
        "curl -fsS --max-time 600 --unix-socket /run/fnd/control.sock {url}"
    ))
}

/// Both programs can be called and survive a restart of fnd; when their files are removed, no process remains.
pub(crate) fn http(machine: &mut VirtualMachine) {
    // Not `socket`: a program's own directory comes first where python looks for modules.
    for (name, listen) in [("at-port", ""), ("at-socket", "# listen = \"unix\"\n")] {
        // Without a sandbox, so that the number is the machine's.
        let code = format!(
            "# /// fnd\n# [sandbox]\n# profile = \"off\"\n# [http_server]\n# start_timeout = \"5m\"\n{listen}# ///\n{SERVER}"
        );
        machine.drop_file(&format!("{name}.py"), &code);
        machine.wait_ready(name);
    }
    let before = ["at-port", "at-socket"].map(|name| pid(machine, name));
    machine.ok("systemctl restart fnd.service");
    assert_eq!(["at-port", "at-socket"].map(|name| pid(machine, name)), before);
    machine.ok("rm /etc/fnd/functions/at-port.py /etc/fnd/functions/at-socket.py");
    for pid in before {
        let gone = format!("! kill -0 {}", pid.trim());
        machine.wait_until("the programs to end", PATIENCE, &gone);
    }
    machine.wait_nothing_left();
}

/// A service starts when its file is added, survives a restart of fnd, is restarted when it is killed, and ends with
/// its file.
pub(crate) fn services(machine: &mut VirtualMachine) {
    // Without a sandbox, so that the number is the machine's.
    const PID: &str = "cat /var/lib/fnd/home/beat/pid";
    let code = "#!/usr/bin/env bash\n# /// fnd\n# [sandbox]\n# profile = \"off\"\n# [service]\n# [retry]\n# interval = \"100ms\"\n# ///\necho $$ >\"$STATE_DIRECTORY/new\"\nmv \"$STATE_DIRECTORY/new\" \"$STATE_DIRECTORY/pid\"\necho up\nwhile sleep 1; do :; done\n";
    machine.drop_file("beat.sh", code);
    let first = machine.wait_until("the service to run", PATIENCE, PID);
    machine.ok("systemctl restart fnd.service");
    machine.ok("fndctl status beat");
    assert_eq!(machine.ok(PID), first, "the restart did not touch it");
    machine.ok(&format!("kill -KILL {}", first.trim()));
    let changed = format!("test \"$({PID})\" != {} && {PID}", first.trim());
    let second = machine.wait_until("the service to come back", PATIENCE, &changed);
    machine.wait_until(
        "what both said",
        PATIENCE,
        "l=$(fndctl logs beat) && echo \"$l\" && test $(grep -c up <<<\"$l\") -ge 2",
    );
    machine.ok("rm /etc/fnd/functions/beat.sh");
    machine.wait_until("the service to end", PATIENCE, &format!("! kill -0 {}", second.trim()));
    machine.wait_nothing_left();
}
