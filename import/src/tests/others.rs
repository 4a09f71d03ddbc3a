//! Compose files, and DAGs of dagu.

use super::{D, N, PublishedFile, R, U, W, check, documents};
use crate::users::ImportedUsers;
use crate::{compose, dagu};
use std::path::Path;

#[test]
fn compose_files() {
    let files: [PublishedFile; 8] = [
        (
            "version: '3'\nservices:\n  db:\n    image: mysql:8\n    restart: always\n    environment:\n      MYSQL_DATABASE: x\nvolumes:\n  data: {}\n",
            0,
            &[("db.image", R), ("version", W), ("volumes", N)],
        ),
        (
            "services:\n  web:\n    build: .\n    ports: ['80:80']\n  cache:\n    image: redis:7\n",
            0,
            &[("web.build", R), ("cache.image", R)],
        ),
        (
            "services:\n  web:\n    command: /srv/web/run --port 8080\n    restart: unless-stopped\n    ports: ['8080:8080']\n    depends_on: [db]\n\
             \x20   stop_signal: SIGINT\n",
            1,
            &[
                ("web.restart", W),
                ("web.ports", N),
                ("web.depends_on", N),
                ("web.stop_signal", W),
            ],
        ),
        (
            "services:\n  job:\n    command: [python3, /srv/job.py]\n    restart: 'no'\n    user: '1000:1000'\n    stop_grace_period: 1m\n",
            1,
            &[("job.restart", D), ("job.user", D), ("job.stop_grace_period", W)],
        ),
        (
            "services:\n  dev:\n    command: /srv/dev\n    profiles: [dev]\n    network_mode: host\n    privileged: true\n    tmpfs: /run\n",
            1,
            &[
                ("dev.profiles", D),
                ("dev.network_mode", W),
                ("dev.privileged", N),
                ("dev.tmpfs", W),
            ],
        ),
        (
            "services:\n  api:\n    command: /srv/api\n    env_file: .env\n",
            0,
            &[("api.env_file", R)],
        ),
        (
            "services:\n  api:\n    command: /srv/api\n    environment:\n      - TOKEN=${TOKEN}\n",
            0,
            &[("api.environment", R)],
        ),
        (
            "services:\n  api:\n    command: /srv/api\n    comand: x\n    mem_limit: 512m\n    cpus: 0.5\n    healthcheck:\n      test: [CMD, true]\n",
            1,
            &[
                ("api.comand", U),
                ("api.mem_limit", W),
                ("api.cpus", W),
                ("api.healthcheck", N),
            ],
        ),
    ];
    check(&files, |text| {
        let documents = documents("compose.yaml", text);
        compose::services(&documents, "compose.yaml", Path::new("/srv"), ImportedUsers::OwnForRoot)
    });
}

#[test]
fn dags() {
    let files: [PublishedFile; 13] = [
        (
            "schedule: '0 2 * * *'\nsteps:\n  - name: extract\n    command: /srv/etl/extract.sh\n    retryPolicy: {limit: 3, intervalSec: 30}\n\
             \x20 - name: load\n    command: python3 /srv/etl/load.py\n    depends: extract\n",
            2,
            &[("schedule", W), ("extract.retryPolicy", W), ("load.depends", W)],
        ),
        (
            "params: DATE=today\nsteps:\n  - name: a\n    command: echo $DATE\n",
            0,
            &[("params", R)],
        ),
        (
            "steps:\n  - name: post\n    executor: {type: http}\n    command: GET https://x.example\n",
            0,
            &[("post.executor", R)],
        ),
        ("steps:\n  - name: sub\n    run: other\n", 0, &[("sub.run", R)]),
        (
            "container: {image: python}\nsteps:\n  - name: a\n    command: x\n",
            0,
            &[("container", R)],
        ),
        (
            "description: Nightly\nmaxActiveRuns: 1\nhistRetentionDays: 30\nmailOn: {failure: true}\nsteps:\n  - name: a\n    command: /srv/a\n\
             \x20   continueOn: {failure: true}\n  - name: b\n    script: |\n      echo b\n    depends: [a]\n",
            2,
            &[
                ("description", W),
                ("maxActiveRuns", N),
                ("mailOn", N),
                ("a.continueOn", W),
                ("histRetentionDays", N),
            ],
        ),
        (
            "steps:\n  - name: a\n    command: /srv/a\n    continue_on: {skipped: true}\n",
            0,
            &[("a.continue_on", R)],
        ),
        (
            "handlerOn:\n  failure: {command: notify}\nsteps:\n  - name: a\n    command: /srv/a\n",
            0,
            &[("handlerOn", R)],
        ),
        (
            "env:\n  - DIR: /srv/d\n  - LOG: ${DIR}/log\nsteps:\n  - name: a\n    command: /srv/a\n    dir: relative\n",
            0,
            &[("env.DIR", W), ("env.LOG", R), ("a.dir", R)],
        ),
        (
            "schedule: CRON_TZ=America/New_York 0 9 * * *\nworking_dir: /srv/d\nlabels: [a]\nsteps:\n  - id: build\n    run: make all\n\
             \x20 - id: deploy\n    run: ./deploy.sh prod\n    depends: [build]\n    retry_policy: {limit: 3, interval_sec: 10}\n",
            2,
            &[
                ("schedule", W),
                ("working_dir", W),
                ("dotenv", D),
                ("deploy.retry_policy", W),
            ],
        ),
        (
            "steps:\n  - id: t\n    action: http.request\n    with: {method: GET}\n",
            0,
            &[("t.action", R), ("t.with", R)],
        ),
        (
            "steps:\n  - name: a\n    command: /srv/a\n    output: OUT\n  - name: b\n    command: echo ${a.stdout}\n    depends: a\n",
            0,
            &[("a.output", R), ("b.command", R)],
        ),
        (
            "shedule: '0 1 * * *'\nsteps:\n  - name: a\n    command: /srv/a\n    retries: 3\n",
            1,
            &[("shedule", U), ("a.retries", U), ("workingDir", D)],
        ),
    ];
    check(&files, |text| {
        dagu::dag(&documents("nightly.yaml", text), "nightly.yaml")
    });
}
