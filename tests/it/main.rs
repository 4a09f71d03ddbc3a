//! End-to-end tests: real `fnd`, `fnd-spawner` and `fndctl`, one module per feature.
//!
//! Each test has an fnd of its own in a private root, and ends by looking that nothing of it is left. Checks that need the same fnd
//! and do not see each other share it: their test calls a function for each of them.
//!
//! Files:
//! - `api`, `asynchronous`, `events`, `metrics`, `traces`, `watch`: the API
//! - `access`, `audit`: roles of people and groups for some functions; who did what
//! - `alerts`, `hooks`: what follows an end, and a change
//! - `answer_ends`: each way in which an answer ends
//! - `answered`: what fnd has answered is stored, for every verb
//! - `archives`: archives that are functions
//! - `away`, `drop`, `versions`, `last_good`, `reload`: files, functions and configuration
//! - `badinput`, `buffers`, `limits`, `shortage`: bounds
//! - `calls_between_functions`: functions that call functions
//! - `cloudevents`: events that functions subscribe to
//! - `corpus`, `examples`: scripts of all kinds
//! - `crash`, `disk_faults`, `storm`: kills, failing disks, everything at once
//! - `ctl`, `doctor`, `edit`, `new`, `run_file`, `validate`, `verify`: fndctl
//! - `day`: a day in the life of a nightly function
//! - `dependencies`: packages that functions need
//! - `deploy`, `deploy_foreign`: functions that are uploaded
//! - `documents`, `units`: the documents are true
//! - `files`: files that run functions, each content once
//! - `fleet`: many machines: Ansible, cloud-init, Litestream
//! - `foreign`: files of Keptn, Kubeless, Kyma and Rafay are functions
//! - `handlers`, `http_mode`, `service_mode`: what is not a script
//! - `hostile`: what people, programs and the machine do to fnd that no feature has in its own tests
//! - `inputs`: payloads that match a schema
//! - `kubeless`: the command line of Kubeless
//! - `lambda`: functions of AWS Lambda's custom runtimes
//! - `listener`: the public listener
//! - `lone`: the runtimes inside the program
//! - `mcp`: functions as tools of agents, with a client library
//! - `moving`: what `fndctl import` makes of crontabs, units and other files runs as before
//! - `nats`: messages of NATS JetStream on one and on several nodes
//! - `page`: the page in a browser
//! - `quotas`: homes and caches that are full
//! - `requests`: what functions see of a request to a route
//! - `kill`, `retry`, `running`: how runs begin and end
//! - `ledger`, `memory`, `messages`, `mistakes`, `output`, `status_file`: what is kept and shown
//! - `state`: values that functions share
//! - `saved`: a call right after a file was saved
//! - `schedules`: each slot is handled once
//! - `shell`: a shell beside a running process
//! - `sdks`: events of the CloudEvents SDKs
//! - `canary`: new code with a share of the calls
//! - `releases`: going back, pinning, and what serves after a restart
//! - `secrets`: what requests are checked with
//! - `secrets_in_git`: secrets that lie encrypted beside functions
//! - `secrets_in_manifests`: secrets in YAML files beside functions
//! - `secrets_of_functions`: what functions get
//! - `secrets_restored`: secrets over the loss of a machine
//! - `sources`: code from repositories and web servers
//! - `takeover`, `takeover_stale`, `takeover_warm`: over a restart
//! - `web`, `open_over_ssh`: the web page, here and from another machine
//! - `warnings`: every warning, where it is shown, and what waits because of it
//! - `usage`: what functions use now; a cancelled drain; reports
//! - `users`: whose rights functions have; two fnds beside each other
#![expect(clippy::unwrap_used, reason = "a test's unwrap is an expectation")]

mod access;
mod alerts;
mod answer_ends;
mod answered;
mod api;
mod archives;
mod asynchronous;
mod audit;
mod away;
mod badinput;
mod buffers;
mod calls_between_functions;
mod canary;
mod cloudevents;
mod corpus;
mod crash;
mod ctl;
mod day;
mod dependencies;
mod deploy;
mod deploy_foreign;
mod disk_faults;
mod doctor;
mod documents;
mod drop;
mod edit;
mod events;
mod examples;
mod files;
mod fleet;
mod foreign;
mod handlers;
mod hooks;
mod hostile;
mod http_mode;
mod inputs;
mod kill;
mod kubeless;
mod lambda;
mod last_good;
mod ledger;
mod limits;
mod listener;
mod lone;
mod mcp;
mod memory;
mod messages;
mod metrics;
mod mistakes;
mod moving;
mod nats;
mod new;
mod open_over_ssh;
mod output;
mod page;
mod quotas;
mod releases;
mod reload;
mod requests;
mod retry;
mod run_file;
mod running;
mod saved;
mod schedules;
mod sdks;
mod secrets;
mod secrets_in_git;
mod secrets_in_manifests;
mod secrets_of_functions;
mod secrets_restored;
mod service_mode;
mod shell;
mod shortage;
mod sources;
mod state;
mod status_file;
mod storm;
mod takeover;
mod takeover_stale;
mod takeover_warm;
mod traces;
mod units;
mod usage;
mod users;
mod validate;
mod verify;
mod versions;
mod warnings;
mod watch;
mod web;
