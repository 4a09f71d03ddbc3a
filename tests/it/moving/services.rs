//! `fndctl import` of programs that are kept running.

use super::Ground;
use fnd_tests::wait::PATIENCE;
use fnd_tests::wait_until;

#[test]
fn apps_of_pm2_run_as_before() {
    let ground = Ground::new();
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
    let row = |field: &str| {
        document["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["field"] == field)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&row("max_memory_restart")["line"], &row("cron_restart")["line"]),
        (&7.into(), &9.into()),
        "{document}"
    );
    let run = ground.invoke("report", "").expect_code(0);
    assert_eq!(run.out(), "report 7 ['one', 'two words']\n");
    let _ = ground
        .fnd
        .wait_function("server", "to run", |function| function.running == 1);
    let expected = format!("up production --x,a b {}", ground.files.join("app").display());
    wait_until("its output", PATIENCE, || {
        ground
            .fnd
            .ctl(&["logs", "server"])
            .out()
            .contains(&expected)
            .then_some(())
    });
    ground.fnd.finish();
}
