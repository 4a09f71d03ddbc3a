//! Ecosystem files of pm2.

use super::{D, N, PublishedFile, R, U, W, check, documents};
use crate::Imported;
use crate::pm2::{Pm2Machine, apps};
use crate::users::ImportedUsers;
use std::path::Path;

/// No file is there to be looked at.
fn made(text: &str) -> Imported {
    let machine = Pm2Machine {
        base: Path::new("/srv/app"),
        env: None,
        users: ImportedUsers::OwnForRoot,
        is_text: |_| None,
    };
    apps(&documents("ecosystem.json", text), "ecosystem.json", machine)
}

#[test]
fn apps_of_node() {
    let files: [PublishedFile; 15] = [
        (
            r#"{"apps": [{"name": "api", "script": "./dist/main.js", "instances": "max", "exec_mode": "cluster", "env": {"NODE_ENV": "production"}}]}"#,
            1,
            &[("instances", D), ("exec_mode", D), ("env.NODE_ENV", W), ("cwd", D)],
        ),
        (
            r#"{"apps": [{"name": "web", "script": "server.js", "instances": 2, "autorestart": true, "watch": false, "max_memory_restart": "1G",
            "env": {"NODE_ENV": "development", "PORT": 3000}, "env_production": {"NODE_ENV": "production"}}],
            "deploy": {"production": {"user": "node", "host": "h.example", "ref": "origin/master", "repo": "git@h.example:r.git", "path": "/var/www"}}}"#,
            1,
            &[
                ("autorestart", D),
                ("watch", W),
                ("max_memory_restart", D),
                ("env_production", N),
                ("deploy", N),
            ],
        ),
        (
            r#"{"apps": [{"name": "bot", "script": "index.js", "watch": ["src"], "ignore_watch": ["node_modules"], "watch_delay": 1000}]}"#,
            1,
            &[("watch", N), ("ignore_watch", N), ("watch_delay", N), ("filter_env", D)],
        ),
        (
            r#"{"apps": [{"name": "shop", "script": "npm", "args": "start", "cwd": "/var/www/shop", "env": {"PORT": "3001"}}]}"#,
            1,
            &[("args", W), ("cwd", W), ("env.PORT", W)],
        ),
        (
            r#"{"apps": [{"name": "shop", "script": "npm run start", "cwd": "./web", "port": 3002}]}"#,
            1,
            &[("script", D), ("port", W), ("cwd", W)],
        ),
        (
            r#"{"apps": [{"name": "dev", "script": "nodemon ./server.ts", "args": "--quiet", "interpreter": "node"}]}"#,
            1,
            &[("args", N), ("interpreter", N)],
        ),
        (
            r#"{"apps": [{"name": "next", "script": "node_modules/next/dist/bin/next", "args": "start -p 3000", "exec_mode": "fork", "instances": 1}]}"#,
            1,
            &[("exec_mode", W), ("instances", W)],
        ),
        (
            r#"{"apps": [{"name": "w", "script": "w.js", "instances": -1, "instance_var": "ID", "wait_ready": true, "listen_timeout": 10000,
            "kill_timeout": 5000, "shutdown_with_message": true}]}"#,
            1,
            &[
                ("instances", D),
                ("instance_var", N),
                ("wait_ready", N),
                ("kill_timeout", W),
                ("shutdown_with_message", D),
            ],
        ),
        (
            r#"{"apps": [{"name": "r", "script": "bin/www", "error_file": "./logs/err.log", "out_file": "./logs/out.log", "log_date_format": "YYYY-MM-DD HH:mm",
            "merge_logs": true, "time": true}]}"#,
            1,
            &[
                ("error_file", N),
                ("out_file", N),
                ("log_date_format", N),
                ("merge_logs", N),
                ("time", N),
            ],
        ),
        (
            r#"{"apps": [{"name": "n", "script": "n.js", "restart_delay": 4000, "max_restarts": 10, "min_uptime": "10s", "exp_backoff_restart_delay": 100}]}"#,
            1,
            &[
                ("restart_delay", D),
                ("exp_backoff_restart_delay", W),
                ("max_restarts", D),
                ("min_uptime", D),
            ],
        ),
        (
            r#"{"apps": [{"name": "job", "script": "job.js", "cron_restart": "0 3 * * *", "autorestart": false}]}"#,
            1,
            &[("cron_restart", W), ("autorestart", D)],
        ),
        (
            r#"{"apps": [{"name": "keep", "script": "k.js", "cron_restart": "0 0 * * *", "node_args": "--max-old-space-size=4096"}]}"#,
            1,
            &[("cron_restart", N), ("node_args", W)],
        ),
        (
            r#"[{"name": "a", "script": "a.js", "post_update": ["npm install"], "source_map_support": true, "vizion": false},
            {"name": "b", "script": "b.js", "namespace": "n", "trace": false, "treekill": true}]"#,
            2,
            &[
                ("post_update", N),
                ("source_map_support", N),
                ("vizion", W),
                ("namespace", W),
                ("treekill", W),
            ],
        ),
        (
            r#"{"name": "one", "script": "./index.js", "maxMemoryRestart": "300M", "errorFile": "/var/log/one.err", "execMode": "cluster"}"#,
            1,
            &[("maxMemoryRestart", D), ("errorFile", N), ("execMode", D)],
        ),
        (
            r#"{"apps": [{"name": "m", "script": "m.js", "env_file": ".env", "instnaces": 2, "healthcheck": {"path": "/"}}]}"#,
            1,
            &[("env_file", N), ("instnaces", U), ("healthcheck", U)],
        ),
    ];
    check(&files, made);
}

#[test]
fn other_apps() {
    let files: [PublishedFile; 13] = [
        (
            r#"{"apps": [{"name": "django", "script": "manage.py", "args": ["runserver", "0.0.0.0:8000"], "interpreter": "/srv/v/bin/python",
            "exec_mode": "fork"}]}"#,
            1,
            &[("args", W), ("interpreter", W)],
        ),
        (
            r#"{"apps": [{"name": "wsgi", "script": "/srv/v/bin/gunicorn", "args": "-w 4 -b 127.0.0.1:8000 app:app", "exec_interpreter": "none"}]}"#,
            1,
            &[("exec_interpreter", W)],
        ),
        (
            r#"{"apps": [{"name": "mcp", "script": "uv", "args": "run server.py", "interpreter": "none", "cwd": "/opt/mcp"}]}"#,
            1,
            &[("script", D), ("interpreter", W)],
        ),
        (
            r#"{"apps": [{"name": "go", "script": "./bin/server", "exec_mode": "fork_mode", "max_memory_restart": 500}]}"#,
            1,
            &[("exec_mode", W)],
        ),
        (
            r#"{"apps": [{"name": "sh", "script": "run.sh", "interpreter": "bash", "uid": "www-data", "gid": "www-data"}]}"#,
            1,
            &[("uid", D), ("gid", D)],
        ),
        (
            r#"{"apps": [{"name": "root", "script": "r.js", "user": "root"}]}"#,
            1,
            &[("user", D)],
        ),
        (
            r#"{"apps": [{"name": "laravel", "script": "artisan", "interpreter": "php", "args": "queue:work --tries=3", "autostart": false}]}"#,
            1,
            &[("autostart", D), ("args", W)],
        ),
        (
            r#"{"apps": [{"name": "ts", "script": "./src/index.ts", "interpreter": "node", "interpreter_args": "--import tsx"}]}"#,
            1,
            &[("interpreter_args", W)],
        ),
        (
            r#"{"apps": [{"name": "bun", "script": "src/index.ts", "interpreter": "bun", "filter_env": ["SECRET"]}]}"#,
            1,
            &[("filter_env", D)],
        ),
        (r#"{"apps": [{"name": "none", "cwd": "/srv/none"}]}"#, 0, &[("app", R)]),
        (
            r#"{"apps": [{"name": "bad", "script": "b.js", "exec_mode": "threads"}]}"#,
            0,
            &[("exec_mode", R)],
        ),
        (
            r#"{"apps": [{"name": "env", "script": "e.js", "env": {"A-B": "x"}}]}"#,
            0,
            &[("env.A-B", R)],
        ),
        (r#"{"apps": []}"#, 0, &[("apps", R)]),
    ];
    check(&files, made);
}
