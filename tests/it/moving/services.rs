//! `fndctl import` of programs that are kept running.

use super::{Ground, rows};
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::wait_until;

/// Each of these has functions of its own.
#[test]
fn apps_programs_and_services() {
    let ground = Ground::new();
    apps_of_pm2_run_as_before(&ground);
    programs_of_supervisord_run_as_before(&ground);
    services_of_compose_run_as_before(&ground);
    ground.fnd.finish();
}

fn apps_of_pm2_run_as_before(ground: &Ground) {
    ground.file("app/server.js", "console.log(`up ${process.env.NODE_ENV} ${process.argv.slice(2)} ${process.cwd()}`); setInterval(() => {}, 1000);\n");
    ground.file(
        "app/report.py",
        "import os, sys; print('report', os.environ['LEVEL'], sys.argv[1:])\n",
    );
    let ecosystem = ground.file(
        "app/ecosystem.config.js",
        "const level = 3 + 4;\nmodule.exports = {\n  apps: [{\n    name: 'Server', script: 'server.js', args: \"--x 'a b'\",\n    \
         env: { NODE_ENV: 'development' },\n    env_production: { NODE_ENV: 'production' },\n    max_memory_restart: '200M',\n  }, {\n    \
         script: 'report.py', args: ['one', 'two words'], autorestart: false, cron_restart: '0 3 * * *',\n    env: { LEVEL: level },\n  }],\n};\n",
    );
    let document = ground.import(&["pm2", &ecosystem, "--env", "production"], 0);
    assert_eq!(
        document["functions"],
        serde_json::json!(["server", "report"]),
        "{document}"
    );
    let line = |field: &str| &rows(&document, field)[0]["line"];
    assert_eq!(
        (line("max_memory_restart"), line("cron_restart")),
        (&7.into(), &9.into()),
        "{document}"
    );
    let run = ground.invoke("report", "").expect_code(0);
    assert_eq!(run.out(), "report 7 ['one', 'two words']\n");
    let _ = ground
        .fnd
        .wait_function("server", "to run", |function| function.running == 1);
    let expected = format!("up production --x,a b {}", ground.files.join("app").display());
    ground.wait_output("server", &expected);
}

/// Waits until a service has ended with this reason, and runs anew.
#[track_caller]
fn wait_restarted(ground: &Ground, name: &str, reason: &str) {
    wait_until(
        &format!("`{name}` to be started again after {reason}"),
        PATIENCE,
        || {
            let history = ground.fnd.history(name);
            let ended = history
                .iter()
                .any(|view| view.state == RunState::Failed && view.reason.unwrap().to_string() == reason);
            (ended && history.len() > 1).then_some(())
        },
    );
}

fn programs_of_supervisord_run_as_before(ground: &Ground) {
    ground.file(
        "super/bin/worker.sh",
        "#!/bin/sh\necho \"$# $1 $2 $LEVEL $MODE $(umask) $PWD\"\necho failing >&2\n[ -e stop ] || exec sleep 1000\nexit 3\n",
    );
    let file = ground.file(
        "super/shop.conf",
        "; programs of the shop\n[program:worker]\ncommand=%(here)s/bin/worker.sh --name=%(program_name)s 'a b'   ; the worker\n\
         directory=%(here)s\nenvironment=LEVEL=\"3, high\",\n  MODE='100%%'\numask=027\nautorestart=true\nstartsecs=0\nstopwaitsecs=3\n\
         redirect_stderr=true\nstdout_logfile=/var/log/worker.log\n\n\
         [program:port]\ncommand=/bin/sh -c \"echo port 80%(process_num)02d; exec sleep 1000\"\n\
         process_name=%(program_name)s_%(process_num)02d\nnumprocs=2\n\n\
         [program:flaky]\ncommand=/bin/sh -c 'echo up; exit 3'\nstartsecs=0\nstartretries=1000\n",
    );
    let document = ground.import(&["supervisord", &file, "--link"], 0);
    assert_eq!(
        document["functions"],
        serde_json::json!(["worker", "port-0", "port-1", "flaky"]),
        "{document}"
    );
    let directory = ground.files.join("super").display().to_string();
    let expected = format!("2 --name=worker a b 3, high 100% 0027 {directory}");
    ground.wait_output("worker", &expected);
    ground.wait_output("worker", "failing");
    ground.wait_output("port-0", "port 8000");
    ground.wait_output("port-1", "port 8001");
    // supervisord starts a program again after an exit code that `exitcodes` does not have.
    wait_restarted(ground, "flaky", "exit-3");
    let detail: serde_json::Value = ground.fnd.client().get("/v1/functions/worker").json();
    assert_eq!(detail["mode"], "service", "{detail}");
    // Without `autorestart`, supervisord leaves a program that ends with 0, and fnd does not.
    let note = rows(&document, "autorestart")
        .iter()
        .find_map(|row| row["note"].as_str())
        .unwrap();
    assert!(note.contains("exit code 0"), "{document}");
}

fn services_of_compose_run_as_before(ground: &Ground) {
    ground.file(
        "shop/app/main.py",
        "import os, sys, time\nprint(os.environ['LEVEL'], os.environ['PRICE'], sys.argv[1:], os.getcwd(), flush=True)\ntime.sleep(1000)\n",
    );
    let file = ground.file(
        "shop/compose.yaml",
        "name: shop\nservices:\n  web:\n    working_dir: DIR/shop/app\n    entrypoint: [python3]\n    command: main.py --port 80 'a b'\n    environment:\n\
         \x20     LEVEL: 3\n      PRICE: 5$$\n    depends_on:\n      db: {condition: service_started}\n    restart: unless-stopped\n    stop_grace_period: 2s\n\
         \x20 shaky:\n    command: [sh, -c, \"echo up; exit 4\"]\n    environment: [\"A=b c\"]\n    restart: on-failure\n\
         \x20 once:\n    command: echo done\n    restart: \"no\"\n\
         \x20 db:\n    image: postgres:17\n",
    );
    let document = ground.import(&["compose", &file], 8);
    assert_eq!(
        document["functions"],
        serde_json::json!(["web", "shaky", "once"]),
        "{document}"
    );
    let expected = format!(
        "3 5$ ['--port', '80', 'a b'] {}",
        ground.files.join("shop/app").display()
    );
    ground.wait_output("web", &expected);
    wait_restarted(ground, "shaky", "exit-4");
    ground.wait_output("once", "done");
    assert_eq!(ground.fnd.history("once").len(), 1);
    let verdict = |field: &str| rows(&document, field)[0]["verdict"].as_str().unwrap();
    assert_eq!(
        (verdict("web.depends_on"), verdict("db.image"), verdict("web.restart")),
        ("not-here", "refused", "works")
    );
}
